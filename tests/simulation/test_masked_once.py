"""One acknowledgement and one release per member, whatever the others send to it."""

from collections import Counter
from typing import Any

import pytest

from protocol.actions import Send
from protocol.aggregation.masked.machine import DoubleMasked
from protocol.aggregation.masked.release import STEPS, Event, Phase, SecretRelease
from protocol.aggregation.masked.unmasking import totals_digest
from protocol.aggregation.masked.view_change import Choice
from protocol.transitions import Step
from protocol.wire import signing
from protocol.wire.masked_messages import Ack, AckVote, Release
from tests import parts
from tests.simulation.bare import Swarm
from tests.simulation.mutations import MEMBERS, OTHERS, begin, machine, real_messages
from tests.simulation.schedules import EVERYBODY_ADDS, REDUCERS, Schedule

LAYOUTS = (EVERYBODY_ADDS, REDUCERS)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_a_calm_session_each_says_each_thing_once_to_each(layout):
    swarm = Swarm(Schedule(2, MEMBERS, layout)).run()
    said = Counter((sender, type(message)) for sender, _, message in swarm.transcript)
    assert {said[member, kind] for member in range(MEMBERS) for kind in (Ack, Release)} == {MEMBERS - 1}


def acks_for(here: DoubleMasked, included: int, mark: int, layout: int) -> list[Ack]:
    """Makes the acknowledgements of all others, who are all liars."""
    chunks, sid = Schedule(0, MEMBERS, layout).scheme.layout.chunks, here.participant.sid
    digests = (bytes([mark]) * 32,) * chunks
    totals = totals_digest(sid, included, digests)
    return [
        Ack(signing.sign(AckVote(sid, sender, included, totals), key), digests)
        for sender, key in OTHERS.items()
    ]


def releases_of(here: DoubleMasked, layout: int) -> set[Any]:
    """Returns the heads of its releases if all acknowledge one thing, and then another."""
    begin(here, real_messages(layout))
    heads = set()
    for included, mark in ((0b11111, 1), (0b11110, 2)):
        for ack in acks_for(here, included, mark, layout):
            for action in here.receive(ack, parts.NOW):
                messages = action.messages if isinstance(action, Send) else ()
                heads |= {message.head for message in messages if isinstance(message, Release)}
    return heads


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_release_although_all_others_lie(layout):
    assert len(releases_of(machine(layout), layout)) == 1


def forgetful(secret_release: SecretRelease, ack: Ack) -> None:
    """A member for which the last acknowledgement of each counts."""
    signing.verify(ack.vote, ack.vote.sender)
    for acks in secret_release._alike.values():
        acks.pop(ack.vote.sender, None)
    secret_release._put(ack)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_planted_fault_two_releases_open_both_secrets_of_a_member(layout, monkeypatch: pytest.MonkeyPatch):
    """Without the rule: the share of member 0's self mask, and then the share of its mask key."""
    monkeypatch.setattr(SecretRelease, "take_ack", forgetful)
    assert len(releases_of(machine(layout), layout)) == 1  # the release rule alone still holds
    again = (Phase.RELEASED, Event.QUORUM)
    monkeypatch.setitem(STEPS, again, Step(Phase.RELEASED, "a fault: another Release"))  # type: ignore[arg-type]
    heads = releases_of(machine(layout), layout)
    assert {head.included & 1 for head in heads} == {0, 1}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_who_has_released_what_others_have_may_still_acknowledge_once(layout):
    here = machine(layout)
    releases_of(here, layout)
    secret_release = here._rounds._secret_release
    assert (secret_release.may_acknowledge, secret_release.may_release) == (True, False)
    secret_release.acknowledge(Choice(0b11111, bytes(32)), (), ())
    assert (secret_release.may_acknowledge, secret_release.may_release) == (False, False)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_is_released_for_fewer_than_t_acknowledgements_or_members(layout):
    here = machine(layout)
    begin(here, real_messages(layout))
    for ack in acks_for(here, 0b11111, 1, layout)[1:]:
        assert not any(isinstance(action, Send) for action in here.receive(ack, parts.NOW))
    other = machine(layout)
    begin(other, real_messages(layout))
    for ack in acks_for(other, 0b00111, 1, layout):
        assert not any(isinstance(action, Send) for action in other.receive(ack, parts.NOW))
