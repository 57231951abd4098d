"""Whole nodes in masked sessions with deaths and lies: all that live end on one base."""

import random
from dataclasses import replace
from itertools import product

import pytest

from protocol.aggregation.equivocation import RULES
from protocol.aggregation.masked.thresholds import MaskedSettings, tolerance
from protocol.aggregation.masked.unmasking import totals_digest
from protocol.crypto.node_key import NodeKey
from protocol.wire import signing
from protocol.wire.masked_messages import Ack, AckVote, Release
from protocol.wire.messages import Message
from scenarios.simulator.plans import ENDS, JOINS, MASKS, Conditions, Crash, Late, Links, Plan, Summation
from scenarios.simulator.rules import Violation, opens_both
from tests.cases import soak
from tests.simulation.runs import outcomes, run, sent

REDUCERS, EVERYBODY_ADDS = 0, 1 << 16
GROUPS = ((4, 1), (5, None))
LAYOUTS = (REDUCERS, EVERYBODY_ADDS)
CASES = tuple(product(GROUPS, LAYOUTS))
CALM = Conditions()
BACK_S = 0.5


def plan_of(peers: int, dropouts: int | None, layout: int, conditions: Conditions = CALM) -> Plan:
    return Plan(peers, 2, conditions, Summation(masked=MaskedSettings(4.0, dropouts, layout), dimension=20))


def crash_everywhere(peers: int, dropouts: int | None, layout: int, seed: int, step: int) -> int:
    """Kills every peer at every `step`-th of its sends: the survivors end alike, and in time."""
    runs = 0
    calm = run(plan_of(peers, dropouts, layout), seed)
    assert {outcome.reason for outcome in calm.rules.outcomes} == {None}
    for peer in calm.peers:
        for at_send in range(1 + peer.index % step, peer.sends + 1, step):
            notices, back_s = at_send % 2 == 0, (None, BACK_S)[at_send // 2 % 2]
            crash = Crash(peer.index, at_send, back_s)
            conditions = Conditions(Links(notices_loss=notices), crashes=(crash,))
            network = run(plan_of(peers, dropouts, layout, conditions), seed)
            living = [other for other in network.peers if other.index != peer.index]
            assert all(other.done for other in living), (seed, conditions)
            assert len({other.base.digest for other in living}) == 1, (seed, conditions)
            runs += 1
    return runs


@pytest.mark.sampled("group0-0", "group1-65536")
@pytest.mark.parametrize(("group", "layout"), CASES)
def test_every_peer_killed_at_many_sends(group, layout):
    assert crash_everywhere(*group, layout, seed=3, step=50) > group[0]


LEFT_BEHIND = (272, 302, 409, 461, 531, 865)
"""Seeds of an earlier fault: a member with all of a dead one's messages waited in vain for the others."""


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param((*LEFT_BEHIND, *range(6)), id="left behind"),
        *(soak(range(n, n + 500), name=f"{n}") for n in range(1000, 6000, 500)),
    ],
)
def test_after_a_death_while_they_join_or_later_the_others_end_every_round_together(seeds):
    for seed in seeds:
        assert _together(seed), seed


def _together(seed: int) -> bool:
    """Returns whether every mean that some of the four survivors have is a mean of all of them."""
    rng = random.Random(seed)
    layout = rng.choice(LAYOUTS)
    crash = Crash(rng.randrange(5), rng.randrange(8, 60), None)
    network = run(replace(plan_of(5, None, layout, Conditions(crashes=(crash,))), rounds=3), seed)
    with_a_mean: dict[bytes, set[int]] = {}
    for outcome in network.rules.outcomes:
        if outcome.reason is None and outcome.sid is not None:
            with_a_mean.setdefault(outcome.sid, set()).add(outcome.peer)
    living = set(range(5)) - {crash.peer}
    return {len(peers & living) for peers in with_a_mean.values()} == {4}


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("group", "layout"), CASES)
def test_every_peer_killed_at_every_send(group, layout, seed):
    crash_everywhere(*group, layout, seed, step=1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kinds", [JOINS, MASKS, ENDS])
def test_who_is_late_comes_to_the_others_base(kinds, layout):
    """A straggler is dropped from the round, and catches up with its certificate."""
    conditions = Conditions(lates=(Late(2, kinds, 30.0, 10.0),))
    network = run(plan_of(5, None, layout, conditions), seed=1)
    assert len(network.digests()) == 1
    assert len(network.finishers()) == 5


def two_acks(key: NodeKey, endpoint: str, message: Message) -> tuple[Message, ...]:
    if not isinstance(message, Ack):
        return (message,)
    digests = (b"\7" * 32, *message.digests[1:])
    vote = message.vote
    other = signing.sign(replace(vote, totals=totals_digest(vote.sid, vote.included, digests)), key)
    return message, Ack(other, digests)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_who_lies_is_banned_and_the_honest_end_alike(layout):
    plan = plan_of(5, None, layout)
    network = run(Plan(5, 4, Conditions(lies=((4, two_acks),)), plan.aggregation), 2)
    liar = network.peers[4].key.public
    accusers = {accusation.by for accusation in network.rules.accusations}
    assert len(accusers) >= 2
    assert {accusation.evidence.what for accusation in network.rules.accusations} == {RULES[AckVote].what}
    assert all(liar in network.peers[by].disk.state.banned for by in accusers)
    assert len({peer.base.digest for peer in network.peers[:4]}) == 1
    assert outcomes(network, 0)[-1].reason is None


# -- the rules themselves -----------------------------------------------------------------------------------


def messages_of(kind: type) -> tuple:
    network = run(plan_of(4, 1, EVERYBODY_ADDS), 1)
    return network, next(line.message for line in sent(network, lambda line: isinstance(line.message, kind)))


def test_another_acknowledgement_is_a_violation():
    network, ack = messages_of(Ack)
    other = two_acks(network.peers[0].key, "", ack)[1]
    with pytest.raises(Violation, match="acknowledges two totals"):
        network.rules.saw(0, other)


def test_another_release_is_a_violation():
    network, release = messages_of(Release)
    with pytest.raises(Violation, match="releases twice"):
        network.rules.saw(0, replace(release, head=replace(release.head, included=7)))


def test_a_release_that_nobody_acknowledged_is_a_violation():
    network, release = messages_of(Release)
    with pytest.raises(Violation, match="releases what 0 acknowledged"):
        network.rules.saw(0, replace(release, head=replace(release.head, sid=b"\1" * 32)))


def test_releases_that_open_both_secrets_of_a_member_are_a_violation():
    five = tolerance(5, 1)
    assert not opens_both([31, 31, 31, 31, 31], five)
    assert not opens_both([30, 30, 30, 30], five)
    assert not opens_both([31, 31, 30, 30], five)
    assert opens_both([31, 31, 31, 31, 30, 30, 30, 30], five)


@pytest.mark.sampled("83-65536")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("step", [83, soak(41)])
def test_where_members_share_noise_a_death_anywhere_costs_at_most_the_sum_it_strikes(step, layout):
    """Rules refuse a mean without some member; survivors are told of the death and wait for no timeout."""
    calm = run(_sharing_noise(layout), 3)
    for peer in calm.peers:
        for at_send in range(1 + peer.index % step, peer.sends + 1, step):
            crash = Conditions(crashes=(Crash(peer.index, at_send, None),))
            network = run(_sharing_noise(layout, crash), 3)
            living = [other for other in network.peers if other.index != peer.index]
            assert all(other.done for other in living), at_send
            assert len({other.base.digest for other in living}) == 1, at_send
            failed = {outcome.sid for outcome in network.rules.outcomes if outcome.reason is not None}
            assert len(failed - {None}) <= 1, at_send


def _sharing_noise(layout: int, conditions: Conditions = CALM) -> Plan:
    """Six members, of whom one may fall silent; four of each one's others are taken to be honest."""
    masked = MaskedSettings(4.0, None, layout, honest=4)
    return Plan(6, 2, conditions, Summation(masked=masked, dimension=20))
