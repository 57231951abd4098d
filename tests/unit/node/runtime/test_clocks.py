"""Whose clock is reported as wrong, and when."""

import pytest

from node.runtime.clocks import ClockNotices, wrong_clocks
from protocol.actions import Note
from protocol.swarm.meeting.clock_skew import TOLERANCE_S, Skew


def test_clocks_that_agree_are_not_wrong():
    assert wrong_clocks({"two": 0, "three": TOLERANCE_S - 1, "four": 1 - TOLERANCE_S}) == {}


@pytest.mark.parametrize(
    ("by_s", "words"),
    [(100, "100 s ahead of"), (-100, "100 s behind"), (600, "600 s ahead of"), (-600, "600 s behind")],
)
def test_one_clock_that_is_wrong_is_named(by_s, words):
    text = f"its clock is {words} this machine's: set it; rounds do not depend on it"
    assert wrong_clocks({"two": 0, "three": by_s, "four": 1}) == {"three": text}


def test_where_most_others_agree_it_is_this_machines_clock_that_is_wrong():
    text = "its clock is 100 s ahead of those of 3 of 4 peers: set it; rounds do not depend on it"
    assert wrong_clocks({"two": -100, "three": -101, "four": -99, "five": 600}) == {None: text}


def test_of_two_that_differ_the_other_is_named_and_of_many_each():
    assert set(wrong_clocks({"two": 100})) == {"two"}
    assert set(wrong_clocks({"two": 100, "three": 500, "four": -300})) == {"two", "three", "four"}


def shown(**ahead_s: float) -> dict[bytes, Skew]:
    return {name.encode(): Skew(f"{name}:1", by_s) for name, by_s in ahead_s.items()}


def test_a_wrong_clock_is_told_once_until_its_peer_is_forgotten():
    notices = ClockNotices()
    (told,) = notices.since(0.0, shown(two=100, three=0))
    assert (told.notice.kind, told.notice.who) == (Note.CLOCK, "two:1")
    assert (
        told.text == "two:1: its clock is 100 s ahead of this machine's: set it; rounds do not depend on it"
    )
    assert notices.since(0.0, shown(two=0, three=0)) == notices.since(0.0, shown(two=100, three=0)) == []
    assert notices.since(0.0, {}) == []
    assert len(notices.since(0.0, shown(two=100, three=0))) == 1


@pytest.mark.parametrize(("by_s", "way"), [(600, "forward"), (-600, "back")])
def test_this_machines_clock_is_told_again_once_somebody_set_it(by_s, way):
    notices = ClockNotices()
    for times in (1, 2):
        stale, anew = shown(two=20 * times, three=20 * times), shown(two=-times * by_s, three=-times * by_s)
        notices.since((times - 1) * by_s, stale)
        (told,) = notices.since(times * by_s, stale)
        assert told.text == f"this machine: its clock was set {way} by 600 s; rounds do not depend on it"
        assert notices.since(times * by_s, stale) == [], "the peers' clocks are of before"
        (wrong,) = notices.since(times * by_s + 1, anew)
        assert "those of 2 of 2 peers" in wrong.text
        assert notices.since(times * by_s, anew) == []
