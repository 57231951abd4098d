"""Whose clock is reported as wrong, and that nothing else depends on it."""

import pytest

from protocol.actions import Note, Notice
from protocol.swarm.meeting.clock_skew import TOLERANCE_S, Clocks
from protocol.wire.messages import Hello
from tests.parts import NOW, PARAMETERS, announce, base, endpoint, members, roster_of
from tests.unit.protocol.swarm.meeting.test_discovery import introduced

KEYS = members(5)
ONE, TWO, THREE, FOUR, FIVE = (key.public for key in KEYS)


def shown(**ahead_s: float) -> Clocks:
    """Sets clocks of which `two`, `three`, ... are this far ahead."""
    clocks = Clocks()
    for name, by_s in ahead_s.items():
        clocks.heard(name.encode(), int(1000 * (NOW + by_s)), NOW)
    return clocks


def test_clocks_that_agree_are_no_news():
    assert shown(two=0, three=TOLERANCE_S - 1, four=1 - TOLERANCE_S).news() == []


@pytest.mark.parametrize(
    ("by_s", "words"),
    [(100, "100 s ahead of"), (-100, "100 s behind"), (600, "600 s ahead of"), (-600, "600 s behind")],
)
def test_one_clock_that_is_wrong_is_named_once(by_s, words):
    clocks = shown(two=0, three=by_s, four=1)

    assert clocks.news() == [
        (b"three", f"its clock is {words} this machine's: set it; rounds do not depend on it")
    ]
    assert clocks.news() == []
    assert clocks.ahead_s(b"three") == pytest.approx(by_s)
    assert clocks.ahead_s(b"two") is None
    assert clocks.ahead_s(b"nobody") is None


def test_where_most_others_agree_it_is_this_machines_clock_that_is_wrong():
    clocks = shown(two=-100, three=-101, four=-99, five=600)
    ((who, text),) = clocks.news()

    assert who is None
    assert text == "its clock is 100 s ahead of those of 3 of 4 peers: set it; rounds do not depend on it"
    assert clocks.news() == []


def test_of_two_that_differ_the_other_is_named():
    assert [who for who, _ in shown(two=100).news()] == [b"two"]


def test_clocks_that_all_differ_are_named_one_by_one():
    assert {who for who, _ in shown(two=100, three=500, four=-300).news()} == {b"two", b"three", b"four"}


def test_a_clock_that_does_not_say_is_no_news():
    clocks = Clocks()
    clocks.heard(b"two", 0, NOW)

    assert clocks.news() == []


def test_who_is_forgotten_is_news_again():
    clocks = shown(two=100)
    assert clocks.news()
    clocks.keep(())
    assert clocks.ahead_s(b"two") is None
    clocks.heard(b"two", int(1000 * (NOW + 100)), NOW)
    assert clocks.news()


@pytest.mark.parametrize(("by_s", "way"), [(600, "forward"), (-600, "back")])
def test_a_clock_that_is_set_while_the_node_runs_is_told_of(by_s, way):
    clocks = shown(two=0, three=0)
    assert clocks.step(by_s, 0.0) == f"its clock was set {way} by 600 s; rounds do not depend on it"
    assert clocks.shown_ms(NOW) == int(1000 * (NOW + by_s))
    ((who, text),) = clocks.news()
    assert who is None
    assert "those of 2 of 2 peers" in text
    assert clocks.step(by_s + 1, 0.0) is None
    assert clocks.news() == []


def test_a_machine_that_slept_was_not_set():
    clocks = shown(two=0, three=0)

    assert clocks.step(3600.0, 3600.0) is None
    assert clocks.shown_ms(NOW) == int(1000 * (NOW + 3600))
    assert clocks.news() == []
    assert "back by 100 s" in str(clocks.step(3500.0, 3600.0))


def test_a_node_tells_of_its_peers_clocks_when_it_has_met_them():
    found = introduced(seeds=(endpoint(KEYS[1]), endpoint(KEYS[2])))
    late = int(1000 * (NOW - 100))
    for key, clock_ms in ((KEYS[1], late), (KEYS[2], int(1000 * NOW))):
        hello = Hello(announce(key), bytes(16), False, PARAMETERS, clock_ms=clock_ms)
        found.hello(hello, key.public, NOW)
        told = found.clock_news()
        assert told == [] if found.joining else told

    (notice,) = told
    assert (notice.kind, notice.who) == (Note.CLOCK, endpoint(KEYS[1]))
    assert "100 s behind this machine's" in notice.text


def test_who_comes_late_says_nothing_before_it_has_heard_most_clocks():
    """The first peer that answers names the others: a report at once would blame the wrong clock."""
    found = introduced(seeds=(endpoint(KEYS[1]),))
    ahead = int(1000 * (NOW + 100))
    others = tuple(announce(key, base=base(3)) for key in KEYS[2:4])
    first = Hello(announce(KEYS[1], base=base(3)), bytes(16), False, PARAMETERS, others, clock_ms=ahead)
    found.hello(first, KEYS[1].public, NOW)
    assert not found.joining
    assert found.clock_news() == []

    found.hello(
        Hello(announce(KEYS[2], base=base(3)), bytes(16), False, PARAMETERS, clock_ms=ahead),
        KEYS[2].public,
        NOW,
    )
    (notice,) = found.clock_news()
    assert notice.who == "this machine"
    assert "those of 2 of 2 peers" in notice.text


def test_a_tracker_whose_clock_is_wrong_is_named_where_it_listens():
    found = introduced(tracker="127.0.0.1:9")
    nonce = found._greetings["127.0.0.1:9"].nonce
    found.roster(roster_of(KEYS[4], nonce, clock_ms=int(1000 * (NOW + 600))), NOW)

    (notice,) = found.clock_news()
    assert notice == Notice(
        Note.CLOCK,
        "127.0.0.1:9",
        "its clock is 600 s ahead of this machine's: set it; rounds do not depend on it",
    )


def test_this_machines_clock_is_named_so():
    found = introduced(seeds=(endpoint(KEYS[1]), endpoint(KEYS[2])))
    for key in KEYS[1:3]:
        hello = Hello(announce(key), bytes(16), False, PARAMETERS, clock_ms=int(1000 * (NOW + 600)))
        found.hello(hello, key.public, NOW)

    assert [notice.who for notice in found.clock_news()] == ["this machine"]


def test_two_clocks_are_needed_before_a_peer_is_named_and_more_than_half_of_all():
    """Of two clocks nobody can tell which one is wrong: the peer's, or this machine's."""
    assert not shown(two=100).most_heard([b"two"])
    assert shown(two=100, three=0).most_heard([b"two", b"three"])
    assert shown(tracker=0, two=100).most_heard([b"two"])
    assert not shown(two=100, three=0).most_heard([b"two", b"three", b"four", b"five"])
    assert shown(tracker=100).most_heard([])
