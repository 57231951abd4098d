"""Masked sums inside a node's session: an offer of which nothing was sent waits for another group."""

from dataclasses import replace

import numpy as np
import pytest

from protocol.actions import Completed, Failed, Reason
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import of_names
from protocol.swarm.meeting.group_seeker import MAX_REGROUPED
from protocol.vectors.ring import NARROW, WIDE, Ring
from protocol.wire.masked_messages import Ack, Check, Join, Masked, Release
from protocol.wire.messages import Group, Hello, Message
from tests.parts import NOW, endpoint, heard, kinds, members, only, resigned, stranger, vector
from tests.wires import INITIAL, Wires

KEYS = members(4)
JOINS_S = 15.0
ONES = np.ones(5, dtype="<f4")


def swarm(layout: int = 0, ring: Ring = WIDE) -> Wires:
    return Wires(KEYS, masked=MaskedSettings(4.0, 1, layout, ring=ring)).open()


def without_joins() -> Wires:
    """All have the GROUP, and wait for JOINs that are lost."""
    wires = swarm()
    wires.dropped = lambda _from, _to, message: isinstance(message, Join)
    return wires.offer()


@pytest.mark.parametrize("layout", [0, 1 << 16])
@pytest.mark.parametrize(("ring", "error"), [(WIDE, 1e-6), (NARROW, 4.0 / 8190)])
def test_four_sessions_end_with_one_mean(layout, ring, error):
    wires = swarm(layout, ring).offer()
    ends = wires.ends(Completed)

    assert len(ends) == 4
    assert len({end.result.tobytes() for _, end in ends}) == 1
    np.testing.assert_allclose(ends[0][1].result, ONES, atol=error)
    assert {(wires[key].round, wires[key].base) for key in KEYS} == {(1, wires[KEYS[0]].base)}


def test_without_joins_the_offers_wait_for_another_group_and_the_round_goes_well():
    wires = without_joins()
    wires.dropped = lambda *_: False
    wires.tick(JOINS_S)
    assert not wires.ends(Failed)
    wires.tick(1.0).tick(1.0)

    assert [end.round for _, end in wires.ends(Completed)] == [1, 1, 1, 1]


@pytest.mark.parametrize("rounds", [0, 1])
def test_whose_round_had_ended_before_the_group_came_is_not_waited_for(rounds):
    wires, late = swarm(), list[Group]()
    two, four = wires[KEYS[1]], KEYS[3]

    def lost(_from: str, to: str, message: Message) -> bool:
        if isinstance(message, Group) and to == endpoint(KEYS[1]):
            late.append(message)
        return to == endpoint(KEYS[1]) and isinstance(message, Group | Join)

    wires.dropped = lost
    wires.offer()
    ready = next(each for each in late[0].readys if each.key == four.public)
    counter = ready.announce.counter + 1
    shown = resigned(ready.announce, four, counter=counter, round=rounds)
    wires.hand(endpoint(KEYS[1]), Hello(shown, bytes(16), False, ""), endpoint(four))
    wires.hand(endpoint(KEYS[1]), late[0], endpoint(KEYS[0]))

    assert two.phase == ("group" if rounds else "shares")


def test_who_waits_again_is_in_no_session_and_still_within_its_t_group():
    wires = without_joins()
    one = wires[KEYS[0]]
    assert (one.status.phase, one.status.deadline) == ("shares", NOW + JOINS_S)
    wires.dropped = lambda *_: True
    wires.tick(JOINS_S, KEYS[0])

    assert (one.status.phase, one.status.deadline) == ("group", NOW + 120.0)


def test_an_offer_waits_again_a_few_times_and_no_more():
    wires = without_joins()
    for _ in range(MAX_REGROUPED):
        wires.tick(JOINS_S)
        assert not wires.ends(Failed)
        assert {wires[key].round for key in KEYS} == {0}
        wires.tick(1.0).tick(1.0)
    wires.tick(JOINS_S)

    assert {end.reason for _, end in wires.ends(Failed)} == {Reason.JOINS_TIMEOUT}
    assert {(wires[key].round, wires[key].base) for key in KEYS} == {(1, INITIAL)}


def test_what_comes_late_of_a_session_that_is_over_changes_nothing():
    wires, late = swarm(), []
    wires.dropped = lambda _from, _to, message: isinstance(message, Ack | Masked) and late.append(message)
    wires.offer()
    one = wires[KEYS[0]]
    before = one.base, one.round, one.status.phase

    assert len(wires.ends(Completed)) == 4
    assert all(heard(one, message, NOW) == [] for message in late)
    assert (one.base, one.round, one.status.phase) == before
    one.offer(vector(1), bytes(32), NOW)
    assert all(heard(one, message, NOW) == [] for message in late)


@pytest.mark.parametrize("layout", [0, 1 << 16])
def test_who_misses_all_releases_ends_by_the_certificate_of_those_who_finished(layout):
    wires = swarm(layout)
    wires.dropped = lambda _from, to, message: isinstance(message, Release) and to == endpoint(KEYS[3])
    wires.offer()

    assert len(wires.ends(Completed)) == 4
    assert len({wires[key].base for key in KEYS}) == 1


def test_a_certificate_that_comes_when_its_session_has_ended_in_another_way_says_nothing():
    """A node that sees another finish requests its certificate, and may finish first."""
    wires = swarm().offer()
    certificate = wires.ends(Completed)[0][1].certificate
    one = wires[KEYS[0]]

    assert one.receive(certificate, KEYS[1].public, NOW) == []
    with pytest.raises(RemoteProtocolError, match="not asked for"):
        one.receive(replace(certificate, sid=bytes(32)), KEYS[1].public, NOW)


def test_what_a_member_passes_on_counts_and_what_a_stranger_brings_does_not():
    """A dead member's vector may reach some, who pass it on to the others: it is signed."""
    wires, lost = swarm(1 << 16), []

    def dropped(sender, to, message):
        is_lost = isinstance(message, Masked) and (sender, to) == (endpoint(KEYS[1]), endpoint(KEYS[0]))
        lost.extend([message] if is_lost else [])
        return is_lost or isinstance(message, Check | Ack | Release)

    wires.dropped = dropped
    wires.offer()
    one = wires[KEYS[0]]
    assert KEYS[1].public in one._machine._rounds._reduction.waiting_for()
    with pytest.raises(RemoteProtocolError, match="from somebody who is not in it"):
        one.receive(lost[0], stranger().public, NOW)
    one.receive(lost[0], KEYS[2].public, NOW)

    assert KEYS[1].public not in one._machine._rounds._reduction.waiting_for()


# -- where votes count ---------------------------------------------------------------------------------


def needing_the_last() -> tuple[Wires, str]:
    """Five members, four of whom can open the secrets; but the only elector is the last one."""
    five = members(5)
    last = endpoint(five[4])
    return Wires(five, masked=MaskedSettings(4.0, None, 0), electorate=of_names([last])).open(), last


def test_releases_enough_to_open_the_secrets_open_nothing_without_a_quorum_of_votes():
    wires, last = needing_the_last()
    wires.dropped = lambda from_, _to, message: isinstance(message, Release) and from_ == last
    wires.offer()

    assert [where for where, _ in wires.ends(Completed)][:1] == [last]
    assert {end.certificate.releases[-1].sender for _, end in wires.ends(Completed)} == {wires.keys[4].public}


def test_a_session_that_no_quorum_can_end_any_more_is_given_up_at_once():
    wires, last = needing_the_last()
    wires.dropped = lambda _from, _to, message: isinstance(message, Ack)
    wires.offer()
    one = wires[wires.keys[0]]
    assert one.status.phase == "sums"
    two = endpoint(wires.keys[1])
    assert "Failed" not in kinds(one.unreachable(two, "connection refused", wires.now)), "four are left"
    actions = wires[wires.keys[2]].unreachable(last, "connection refused", wires.now)

    failed = only(actions, Failed)
    assert (failed.reason, failed.missing) == (Reason.MASKS_TIMEOUT, (wires.keys[4].public,))
