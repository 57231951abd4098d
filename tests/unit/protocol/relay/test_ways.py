"""Which relay leads to a member, and since when none does."""

from __future__ import annotations

import pytest

from protocol.relay.admission import CarrierKind
from protocol.relay.frames import Absence
from protocol.relay.ways import CLOSED_S, SILENT_S, STALLED_S, Away, CarrierId, Ways

ONE, OTHER = bytes([1]) * 32, bytes([2]) * 32
CONTROL, BULK = CarrierKind
LINE = ONE, CONTROL
FIRST, SECOND, THIRD = (CarrierId(relay, CONTROL) for relay in range(3))


@pytest.fixture
def ways():
    return Ways((ONE, OTHER), 2, 0.0)


def test_before_a_relay_is_connected_all_are_away(ways):
    assert ways.way(LINE) is ways.guess(CONTROL) is None
    assert ways.away(LINE) == Away(0.0, None, SILENT_S)


def test_the_first_relay_where_both_are_leads_there(ways):
    assert ways.connect(SECOND, 1.0) == [LINE, (OTHER, CONTROL)]
    assert ways.connect(FIRST, 2.0) == [LINE, (OTHER, CONTROL)]
    assert ways.way(LINE) == ways.guess(CONTROL) == FIRST
    assert ways.away(LINE) is None
    assert ways.leave(FIRST, ONE, Absence.SILENT, 3.0) == [LINE]
    assert ways.way(LINE) == SECOND
    assert ways.way((OTHER, CONTROL)) == FIRST
    assert ways.arrive(FIRST, ONE, 4.0) == [LINE]
    assert ways.arrive(FIRST, ONE, 4.0) == []
    assert ways.leave(FIRST, ONE, Absence.SILENT, 4.0) == [LINE]
    assert ways.hear(FIRST, ONE, 4.0) == [LINE]  # it is there again, although the relay did not say so
    assert ways.hear(FIRST, ONE, 4.0) == []
    assert ways.disconnect(FIRST, 5.0) == [LINE, (OTHER, CONTROL)]
    assert ways.way(LINE) == SECOND


def test_kinds_of_carriers_have_ways_of_their_own(ways):
    ways.connect(FIRST, 1.0)
    assert ways.way((ONE, BULK)) is None
    assert ways.away((ONE, BULK)) is not None
    assert ways.connect(CarrierId(0, BULK), 2.0) == [(ONE, BULK), (OTHER, BULK)]


def test_a_new_carrier_knows_nothing_of_who_was_away(ways):
    ways.connect(FIRST, 1.0)
    ways.leave(FIRST, ONE, Absence.CLOSED, 2.0)
    assert ways.disconnect(FIRST, 3.0) == [(OTHER, CONTROL)]
    assert set(ways.connect(FIRST, 4.0)) == {(OTHER, CONTROL), LINE}


@pytest.mark.parametrize(
    ("words", "until"),
    [
        ([Absence.CLOSED], 10.0 + CLOSED_S),
        ([Absence.SILENT], 10.0 + SILENT_S),
        ([Absence.CLOSED, Absence.SILENT], 10.0 + SILENT_S),
        ([Absence.CLOSED, Absence.CLOSED], 10.0 + CLOSED_S),
    ],
)
def test_streams_of_a_closed_carrier_are_over_soon_unless_a_relay_says_better(ways, words, until):
    for number, word in enumerate(words):
        ways.connect(CarrierId(number, CONTROL), 5.0)
        ways.leave(CarrierId(number, CONTROL), ONE, word, 10.0)
    assert ways.away(LINE) == Away(10.0, min(words), until)


def test_an_absence_begins_once_and_its_end_only_comes_nearer(ways):
    ways.connect(FIRST, 1.0)
    ways.leave(FIRST, ONE, Absence.SILENT, 2.0)
    ways.leave(FIRST, ONE, Absence.SILENT, 9.0)
    assert ways.away(LINE) == Away(2.0, Absence.SILENT, 2.0 + SILENT_S)
    ways.leave(FIRST, ONE, Absence.CLOSED, 10.0)
    assert ways.away(LINE) == Away(2.0, Absence.CLOSED, 10.0 + CLOSED_S)
    ways.disconnect(FIRST, 11.0)
    assert ways.away(LINE) == Away(2.0, None, 10.0 + CLOSED_S)


@pytest.fixture
def three():
    """The ways of a node that is connected to three relays."""
    ways = Ways((ONE, OTHER), 3, 0.0)
    for carrier in (FIRST, SECOND, THIRD):
        ways.connect(carrier, 0.0)
    return ways


def test_a_relay_that_brings_no_answer_is_left_for_the_one_that_was_doubted_longest_ago(three):
    at = 10.0
    for carrier in (SECOND, THIRD, FIRST, SECOND):
        assert three.doubt(LINE, at) == [LINE]
        assert three.way(LINE) == carrier
        assert three.doubt(LINE, at + STALLED_S - 0.1) == []  # it has not had its time
        at += STALLED_S
    assert three.way((OTHER, CONTROL)) == FIRST


def test_where_no_other_relay_leads_there_none_is_doubted(ways):
    assert ways.doubt(LINE, 10.0) == []
    ways.connect(FIRST, 10.0)
    assert ways.doubt(LINE, 20.0) == []
    ways.connect(SECOND, 20.0)
    ways.leave(SECOND, ONE, Absence.SILENT, 20.0)
    assert ways.doubt(LINE, 30.0) == []
    assert ways.way(LINE) == FIRST


@pytest.mark.parametrize("again", ["this node", "the member"])
def test_a_relay_to_which_somebody_connects_anew_is_doubted_no_more(three, again):
    three.doubt(LINE, 10.0)
    if again == "this node":
        three.disconnect(FIRST, 11.0)
        assert three.connect(FIRST, 12.0) == [LINE, (OTHER, CONTROL)]
    else:
        assert three.arrive(FIRST, ONE, 12.0) == [LINE]
    assert three.way(LINE) == FIRST


def test_a_member_is_seen_once_something_comes_from_it(ways):
    assert ways.seen(ONE) is None
    ways.connect(FIRST, 1.0)
    ways.leave(FIRST, OTHER, Absence.CLOSED, 1.0)
    assert ways.seen(ONE) is ways.seen(OTHER) is None  # a relay leads to the one, as far as is known
    ways.hear(FIRST, ONE, 2.0)
    assert ways.seen(ONE) == FIRST
    ways.arrive(FIRST, OTHER, 2.0)
    assert ways.seen(OTHER) == FIRST


def test_a_member_is_missed_since_it_was_lost_whatever_its_relays_say_until_it_is_seen(ways):
    ways.connect(FIRST, 1.0)
    ways.hear(FIRST, ONE, 2.0)
    ways.disconnect(FIRST, 3.0)
    assert ways.seen(ONE) == Away(3.0, None, 3.0 + SILENT_S)
    ways.connect(FIRST, 4.0)
    assert ways.way(LINE) == FIRST
    assert ways.seen(ONE).since == 3.0
    ways.leave(FIRST, ONE, Absence.CLOSED, 5.0)
    assert (ways.seen(ONE).since, ways.seen(ONE).why) == (3.0, Absence.CLOSED)
    ways.arrive(CarrierId(0, BULK), ONE, 6.0)
    assert ways.seen(ONE).since == 3.0  # by its small messages alone
    ways.arrive(FIRST, ONE, 7.0)
    assert ways.seen(ONE) == FIRST


def test_members_come_and_go(ways):
    third = bytes([3]) * 32
    ways.connect(FIRST, 1.0)
    ways.add(third, 2.0)
    assert ways.way((third, CONTROL)) == FIRST
    assert ways.away((third, BULK)) == Away(2.0, None, 2.0 + SILENT_S)
    ways.hear(FIRST, third, 2.5)
    ways.leave(FIRST, third, Absence.CLOSED, 3.0)
    ways.arrive(FIRST, third, 3.5)
    ways.drop(third)
    assert ways.seen(third) is None
    assert ways.away((third, CONTROL)) is ways.way((third, CONTROL)) is None
    assert ways.disconnect(FIRST, 4.0) == [LINE, (OTHER, CONTROL)]
