"""Whose JOIN or vote a session waits for in vain, and what a member that lacks a JOIN says."""

from dataclasses import replace
from typing import Any

import pytest

from protocol.actions import Due, Failed, Reason, Send
from protocol.aggregation.masked.machine import GRACE_S, DoubleMasked
from protocol.errors import RemoteProtocolError
from protocol.wire import signing
from protocol.wire.masked_messages import Join, Joined, Lacking
from tests.parts import NOW
from tests.simulation.mutations import MEMBERS, OTHERS, machine, real_messages
from tests.simulation.schedules import JOINS_S, REDUCERS

KEYS = tuple(sorted(OTHERS))
"""The members apart from number 0, whose machine is under test: key number i is member i + 1."""


def of(kind: type, *senders: bytes) -> list[Any]:
    """Returns the real messages of this kind from these members."""
    found = [message for message in real_messages(REDUCERS) if isinstance(message, kind)]
    sender = {Join: lambda each: each.head.sender, Joined: lambda each: each.vote.sender}[kind]
    return [message for message in found if sender(message) in senders]


def hand(here: DoubleMasked, *messages: Any) -> DoubleMasked:
    for message in messages:
        here.receive(message, NOW)
    return here


def lacking(here: DoubleMasked, sender: bytes, *numbers: int) -> Lacking:
    """Returns what a member says that lacks the JOINs of members with these numbers."""
    missing = sum(1 << number for number in numbers)
    return signing.sign(Lacking(here.participant.sid, sender, missing), OTHERS[sender])


def said(actions: list[Any]) -> set[tuple[bytes, int]]:
    """Returns to whom a machine says what is missing."""
    sends = [each for each in actions if isinstance(each, Send)]
    return {
        (each.to, message.missing)
        for each in sends
        for message in each.messages
        if isinstance(message, Lacking)
    }


def failed(here: DoubleMasked) -> Any:
    """Returns how it ends when all its time is over."""
    (end,) = [each for each in here.tick(NOW + JOINS_S + GRACE_S) if isinstance(each, Failed)]
    return end.withheld


def test_a_member_that_lacks_a_join_says_so_after_the_grace_once_it_has_seen_a_vote():
    here = hand(machine(REDUCERS), *of(Join, *KEYS[1:]))
    assert here.deadline == NOW + JOINS_S
    hand(here, *of(Joined, KEYS[1]))
    assert here.deadline == NOW + GRACE_S
    assert said(here.tick(NOW + GRACE_S)) == {(key, 0b10) for key in KEYS}
    assert here.deadline == NOW + JOINS_S, "it goes on waiting"
    hand(here, *of(Joined, KEYS[2]))
    assert here.deadline == NOW + JOINS_S, "once is enough"
    (vote, *_) = here.receive(*of(Join, KEYS[0]), NOW + 5)
    assert isinstance(vote.messages[0], Joined), "a JOIN that comes late counts"


def test_it_says_so_when_the_time_is_over_if_nobody_has_voted():
    here = hand(machine(REDUCERS), *of(Join, *KEYS[2:]))
    actions = here.tick(NOW + JOINS_S)
    assert said(actions) == {(key, 0b110) for key in KEYS}
    assert (actions[-1].withheld.due, actions[-1].withheld.keys) == (Due.JOIN, KEYS[:2])


def test_when_a_member_is_lost_it_names_that_one_alone():
    """The JOINs of the others may be on their way."""
    actions = machine(REDUCERS).unreachable(KEYS[1], NOW)
    assert said(actions) == {(key, 0b100) for key in KEYS}
    assert actions[-1].withheld.keys == (KEYS[1],)


MOST = range(2, 2 + (MEMBERS - 1) // 2 + 1)


@pytest.mark.parametrize(
    ("lacks", "keys", "disputes"),
    [
        pytest.param((), KEYS[:1], (), id="it says nothing"),
        pytest.param((3,), (), ((KEYS[0], KEYS[2]),), id="another's JOIN: excused, and both are remembered"),
        pytest.param((0,), KEYS[:1], (), id="this member's JOIN"),
        pytest.param(MOST, KEYS[:1], (), id="most JOINs: it is cut off itself"),
    ],
)
def test_who_has_joined_and_does_not_vote_is_named_unless_it_says_whose_join_it_lacks(lacks, keys, disputes):
    here = hand(machine(REDUCERS), *of(Join, *KEYS), *of(Joined, *KEYS[1:]))
    found = failed(hand(here, *[lacking(here, KEYS[0], *lacks)] * bool(lacks)))
    assert (found.due, found.keys, found.disputes) == (Due.JOINED, keys, disputes)


def test_what_this_member_sees_itself_is_no_dispute():
    """Who withholds from all is complained of by all: that is nothing against them."""
    here = hand(machine(REDUCERS), *of(Join, *KEYS[1:]))
    found = failed(hand(here, lacking(here, KEYS[1], 1), lacking(here, KEYS[2], 1)))
    assert (found.due, found.keys, found.disputes) == (Due.JOIN, KEYS[:1], ())


def test_what_nobody_can_lack_is_refused():
    here = machine(REDUCERS)
    for numbers in ((), (1,), (1, 2), (MEMBERS,)):
        with pytest.raises(RemoteProtocolError, match="a LACKING of nobody, of strangers, or of its sender"):
            here.receive(lacking(here, KEYS[0], *numbers), NOW)
    with pytest.raises(RemoteProtocolError, match="signature"):
        here.receive(replace(lacking(here, KEYS[0], 2), missing=0b1000), NOW)
    assert failed(hand(here, *of(Join, *KEYS), *of(Joined, *KEYS[1:]))).keys == KEYS[:1], (
        "nothing of it counts"
    )


def test_when_two_others_lack_each_others_joins_it_ends_at_once_and_each_learns_what_the_other_said():
    here = hand(machine(REDUCERS), *of(Join, *KEYS), *of(Joined, *KEYS[2:]))
    one, other = lacking(here, KEYS[0], 2), lacking(here, KEYS[1], 1, 4)
    assert here.receive(one, NOW) == []
    *sent, end = here.receive(other, NOW + GRACE_S)
    assert sent == [Send(KEYS[1], (one,)), Send(KEYS[0], (other,))]
    assert (end.reason, end.withheld.keys) == (Reason.JOINS_TIMEOUT, ()), "nobody else owes anything yet"
    assert end.withheld.disputes == ((KEYS[0], KEYS[1]),)


def test_one_of_two_that_lack_each_others_joins_names_the_other_as_soon_as_it_is_told():
    here = hand(machine(REDUCERS), *of(Join, *KEYS[1:]), *of(Joined, KEYS[1]))
    here.tick(NOW + GRACE_S)
    (end,) = here.receive(lacking(here, KEYS[0], 0), NOW + GRACE_S)
    assert (end.withheld.due, end.withheld.keys, end.withheld.disputes) == (Due.JOIN, KEYS[:1], ())

    here = hand(
        machine(REDUCERS), *of(Join, *KEYS[1:]), *of(Joined, KEYS[1]), lacking(machine(REDUCERS), KEYS[0], 0)
    )
    *told, end = here.tick(NOW + GRACE_S)
    assert said(told) == {(key, 0b10) for key in KEYS}
    assert end.withheld.keys == KEYS[:1]


def test_two_that_lack_the_joins_of_most_end_nothing():
    """They are cut off themselves: the others wait for what they may still send."""
    here = hand(machine(REDUCERS), *of(Join, *KEYS), *of(Joined, *KEYS[2:]))
    most = range(3, 3 + (MEMBERS - 1) // 2)
    hand(here, lacking(here, KEYS[0], 2, *most), lacking(here, KEYS[1], 1, *most))
    assert here.deadline is not None


def test_a_join_that_is_on_its_way_and_slow_is_missing_only_when_the_time_is_over():
    here = hand(machine(REDUCERS), *of(Join, *KEYS[2:]), *of(Joined, KEYS[2]))
    here.arriving(KEYS[0])
    assert said(here.tick(NOW + GRACE_S)) == {(key, 0b100) for key in KEYS}
    here = hand(machine(REDUCERS), *of(Join, *KEYS[1:]), *of(Joined, KEYS[1]))
    here.arriving(KEYS[0])
    assert said(here.tick(NOW + GRACE_S)) == set()
    assert said(here.tick(NOW + JOINS_S)) == {(key, 0b10) for key in KEYS}
