"""Whose clock is reported as wrong, and when."""

import pytest

from node.runtime.clocks import ClockNotices, wrong_clocks
from protocol.actions import Note
from protocol.swarm.meeting.clock_skew import TOLERANCE_S, Skew

BEHIND, HUNDRED, FAR = (f"{by} this machine's" for by in ("300 s behind", "100 s ahead of", "500 s ahead of"))


@pytest.mark.parametrize(
    ("ahead_s", "wrong"),
    [
        ((0, TOLERANCE_S - 1, 1 - TOLERANCE_S), {}),
        ((0, 100, 1), {1: HUNDRED}),
        ((100,), {0: HUNDRED}),  # of two that differ, the other one
        ((-300, 100, 500), {0: BEHIND, 1: HUNDRED, 2: FAR}),
        ((-100, -101, -99, 600), {None: "100 s ahead of those of 3 of 4 peers"}),  # most others agree
    ],
)
def test_whose_clock_is_wrong_and_by_how_much(ahead_s, wrong):
    told = {who: f"its clock is {words}: set it; rounds do not depend on it" for who, words in wrong.items()}
    assert wrong_clocks(dict(enumerate(ahead_s))) == told


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
