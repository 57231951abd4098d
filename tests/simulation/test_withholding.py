"""A member that joins and then withholds, among whole nodes in a simulated network: what it costs.

The other rules of the simulator hold in each run: nobody waits beyond the deadlines, no strong base is lost.
"""

import math
import random
from dataclasses import replace
from typing import get_args

import pytest

from protocol.actions import Reason
from protocol.aggregation.masked.layout import ALL_TO_ALL_BYTES
from protocol.aggregation.masked.rounds import SummedMessage
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.swarm.meeting.suspicion import FORGIVEN_AFTER, LEFT_OUT_FROM
from scenarios.simulator.network import Network
from scenarios.simulator.plans import ENDS, MASKS, VIEWS, Conditions, Crash, Late, Plan, Summation
from scenarios.simulator.spoilers import withholds
from tests.cases import soaks
from tests.simulation.runs import outcomes, run
from tests.simulation.test_runs import random_run

PEERS, ROUNDS, LEAVE_OUT = 5, 24, 4
UNSPENT = {Reason.JOINS_TIMEOUT, Reason.GROUP_TIMEOUT, Reason.SWARM_FINISHED}
SILENT = withholds(*get_args(SummedMessage))
"""Joins, and sends nothing that comes after."""
BOUND = LEFT_OUT_FROM + math.log2(1 + ROUNDS / LEAVE_OUT) + ROUNDS / FORGIVEN_AFTER


def plan_of(silent: int, layout: int = 0, leave_out: int = LEAVE_OUT, **about) -> Plan:
    masked = MaskedSettings(4.0, None, layout, honest=2)
    aggregation = Summation(masked=masked, dimension=20, run_steps=3, leave_out=leave_out)
    return replace(Plan(PEERS, ROUNDS, Conditions(lies=((silent, SILENT),)), aggregation), **about)


def spoiled(network: Network, peer: int) -> int:
    """Returns for how many rounds a peer was charged without a result."""
    return sum(
        end.sid is not None and end.reason is not None and end.reason not in UNSPENT
        for end in outcomes(network, peer)
    )


def made(network: Network) -> int:
    return max(peer.base.generation for peer in network.peers)


@pytest.mark.sampled("2-0-True", "4-65536-False")
@pytest.mark.parametrize(
    ("silent", "layout", "tracker"), [(0, 0, False), (2, 0, True), (4, ALL_TO_ALL_BYTES, False)]
)
def test_it_spoils_few_sums_and_the_others_go_on(silent, layout, tracker):
    network = run(plan_of(silent, layout, tracker=tracker), 40 + silent)
    honest = [peer for peer in range(PEERS) if peer != silent]

    assert max(spoiled(network, peer) for peer in honest) <= BOUND
    assert min(spoiled(network, peer) for peer in honest) >= LEFT_OUT_FROM
    assert made(network) >= ROUNDS - BOUND - 1


@pytest.mark.sampled("0")
@pytest.mark.parametrize("seed", [*range(3), *soaks(range(3, 5))])
def test_one_that_is_killed_and_starts_again_is_in_the_groups_again(seed):
    rng = random.Random(seed)
    crash = Conditions(crashes=(Crash(rng.randrange(PEERS), rng.randint(80, 300), rng.uniform(0.2, 3.0)),))
    network = run(plan_of(0, conditions=crash), seed)

    assert len(network.digests()) == 1
    assert all(peer.node.picture().left_out == () for peer in network.peers)
    assert [end.reason for end in outcomes(network, 1)][-3:] == [None] * 3


@pytest.mark.sampled
@pytest.mark.parametrize("seed", [0, *soaks((1, 2))])
def test_one_that_is_slow_for_a_while_is_back_when_it_is_fast_again(seed):
    """Its vectors come too late for its first sums, although it means well."""
    late = Conditions(lates=(Late(3, (*MASKS, *ENDS, *VIEWS), 40.0, 33.0),))
    network = run(plan_of(0, conditions=late, rounds=150), seed)
    sizes = [len(members) for members in network.rules.groups.values()]

    assert len(network.digests()) == 1
    assert 4 in sizes
    assert sizes[-1] == PEERS


def run_that_leaves_out(seed: int) -> Network:
    plan = random_run(seed)
    aggregation = replace(plan.aggregation, leave_out=random.Random(seed).choice((1, 4)))
    return Network(replace(plan, aggregation=aggregation), seed).run()


def test_random_schedules_break_no_rule_whoever_is_left_out():
    left_out = 0
    for seed in range(8):
        network = run_that_leaves_out(seed)
        left_out += any(peer.node._suspicion._strikes for peer in network.peers)
    assert left_out, "in some schedules somebody got a strike"


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1_000_000, 1_004_000, 100))
def test_many_random_schedules_break_no_rule_whoever_is_left_out(first):
    for seed in range(first, first + 100):
        run_that_leaves_out(seed)
