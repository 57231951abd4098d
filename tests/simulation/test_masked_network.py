"""Whole nodes with deaths and lies, above all in masked sessions: all that live end on one base, in time."""

import random
from dataclasses import replace
from itertools import product

import pytest

from protocol.aggregation.masked.release import TWO_ACKS
from protocol.aggregation.masked.thresholds import MaskedSettings, tolerance
from protocol.aggregation.masked.unmasking import totals_digest
from protocol.crypto.node_key import NodeKey
from protocol.wire import signing
from protocol.wire.masked_messages import Ack, Release
from protocol.wire.messages import Message
from scenarios.simulator.network import START_S
from scenarios.simulator.plans import ENDS, JOINS, MASKS, Conditions, Crash, Late, Plan
from scenarios.simulator.rules import Violation, opens_both
from tests.simulation.runs import outcomes, run, sent

REDUCERS, EVERYBODY_ADDS = 0, 1 << 16
LAYOUTS = (REDUCERS, EVERYBODY_ADDS)
CALM = Conditions()
BACK_S = 0.5


def plan_of(peers: int, dropouts: int | None, layout: int, conditions: Conditions = CALM) -> Plan:
    return Plan(peers, 2, conditions, masked=MaskedSettings(4.0, dropouts, layout), dimension=20)


def crash_everywhere(plan: Plan, seed: int, step: int) -> int:
    """Kills every peer at every `step`-th of its sends: the survivors end alike, and in time."""
    runs = 0
    calm = run(plan, seed)
    assert {outcome.reason for outcome in calm.rules.outcomes} == {None}
    for peer in calm.peers:
        for at_send in range(1 + peer.index % step, peer.sends + 1, step):
            notices, back_s = at_send % 2 == 0, (None, BACK_S)[at_send // 2 % 2]
            crash = Crash(peer.index, at_send, back_s)
            conditions = Conditions(notices_loss=notices, crashes=(crash,))
            network = run(replace(plan, conditions=conditions), seed)
            living = [other for other in network.peers if other.index != peer.index]
            assert all(other.done for other in living), (seed, conditions)
            assert len({other.base.digest for other in living}) == 1, (seed, conditions)
            runs += 1
    return runs


MASKED = plan_of(4, 1, EVERYBODY_ADDS), plan_of(5, None, REDUCERS)
OTHER_LAYOUTS = plan_of(4, 1, REDUCERS), plan_of(5, None, EVERYBODY_ADDS)
ADDITIVE = Plan(4, 2), Plan(4, 2, tracker=True)


@pytest.mark.parametrize(("plan", "step"), [*product(MASKED, [9]), *product(ADDITIVE, [5])])
def test_every_peer_killed_at_many_sends(plan, step):
    """Includes the coordinating peer: among peers it is the one with the lowest key."""
    assert crash_everywhere(plan, seed=3, step=step) > 3 * plan.peers


@pytest.mark.parametrize("at_send", range(6, 60, 18))
def test_the_tracker_is_killed_and_comes_back(at_send):
    crash = Crash(5, at_send, 2.0)
    network = run(Plan(5, 4, Conditions(crashes=(crash,)), tracker=True), at_send)
    assert len(network.digests()) == 1, crash
    assert max(outcome.at_s for outcome in network.rules.outcomes) - START_S < 30.0, crash


LEFT_BEHIND = (272, 302, 409, 461, 531, 865)
"""Seeds of an earlier fault: a member with all of a dead one's messages waited in vain for the others."""


def test_after_a_death_while_they_join_or_later_the_others_end_every_round_together():
    for seed in (*LEFT_BEHIND, *range(14)):
        assert _together(seed), seed


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 6000, 500))
def test_after_a_death_the_others_end_every_round_together_many_times(first):
    for seed in range(first, first + 500):
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
@pytest.mark.parametrize("plan", [*MASKED, *OTHER_LAYOUTS, *ADDITIVE])
def test_every_peer_killed_at_every_send(plan, seed):
    crash_everywhere(plan, seed, step=1)


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
    network = run(Plan(5, 4, masked=plan.masked, dimension=20, lies=((4, two_acks),)), 2)
    liar = network.peers[4].key.public
    accusers = {accusation.by for accusation in network.rules.accusations}
    assert len(accusers) >= 2
    assert {accusation.evidence.what for accusation in network.rules.accusations} == {TWO_ACKS}
    assert all(liar in network.peers[by].disk.state.banned for by in accusers)
    assert len({peer.base.digest for peer in network.peers[:4]}) == 1
    assert outcomes(network, 0)[-1].reason is None


# -- the rules themselves -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "change", "told"),
    [
        (Ack, lambda key, ack: two_acks(key, "", ack)[1], "acknowledges two totals"),
        (Release, lambda _, it: replace(it, head=replace(it.head, included=7)), "releases twice"),
        (
            Release,
            lambda _, it: replace(it, head=replace(it.head, sid=b"\1" * 32)),
            "releases what 0 acknowledged",
        ),
    ],
    ids=["another acknowledgement", "another release", "a release that nobody acknowledged"],
)
def test_what_contradicts_an_earlier_message_is_a_violation(kind, change, told):
    network = run(plan_of(4, 1, EVERYBODY_ADDS), 1)
    first = next(line.message for line in sent(network, lambda line: isinstance(line.message, kind)))
    with pytest.raises(Violation, match=told):
        network.rules.saw(0, change(network.peers[0].key, first))


def test_releases_that_open_both_secrets_of_a_member_are_a_violation():
    five = tolerance(5, 1)
    assert not opens_both([31, 31, 31, 31, 31], five)
    assert not opens_both([30, 30, 30, 30], five)
    assert not opens_both([31, 31, 30, 30], five)
    assert opens_both([31, 31, 31, 31, 30, 30, 30, 30], five)


def test_where_members_share_noise_a_death_anywhere_costs_at_most_the_sum_it_strikes():
    """Rules refuse a mean without some member; survivors are told of the death and wait for no timeout.

    Six members, of whom one may fall silent; four of each one's others are taken to be honest.
    """
    calm = Plan(6, 2, masked=MaskedSettings(4.0, None, REDUCERS, honest=4), dimension=20)
    for peer in run(calm, 3).peers:
        for at_send in range(1 + peer.index % 13, peer.sends + 1, 13):
            crash = Conditions(crashes=(Crash(peer.index, at_send, None),))
            network = run(replace(calm, conditions=crash), 3)
            living = [other for other in network.peers if other.index != peer.index]
            assert all(other.done for other in living), at_send
            assert len({other.base.digest for other in living}) == 1, at_send
            failed = {outcome.sid for outcome in network.rules.outcomes if outcome.reason is not None}
            assert len(failed - {None}) <= 1, at_send
