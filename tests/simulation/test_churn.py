"""Peers come late, die, are cut off, leave and return: no strong base is lost, and able quorums go on.

The first tests are faults of an earlier rule, by which a group had to exceed only half of the known peers:
with it, each of these plans forked, lost what a peer had stored, or stood still. The campaign runs
4 troubles x 2 (with a tracker, and without) x 3 seeds.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import pytest

from protocol.wire.messages import Base
from scenarios.simulator.network import START_S, Network
from scenarios.simulator.plans import Conditions, Deadlines, Links, Plan, Summation, random_plan
from scenarios.simulator.rules import Rules, Violation
from tests.cases import soak, soaks
from tests.simulation.churn import (
    FIRST_BACK_S,
    Trouble,
    churn_plan,
    is_stuck,
    leave_and_return,
    long_cut,
    strong_lost,
)
from tests.simulation.runs import outcomes, run

IN_CI = 3
IN_SOAK = 50_000
SOAK_AT_ONCE = 125
FIRST_OF_SOAK = 10_000
KINDS = tuple(product(Trouble, (False, True)))
EACH_IN_SOAK = IN_SOAK // len(KINDS)

COMMON_MEMBER = (
    (churn_plan(131, Trouble.CRASH), 131),
    (churn_plan(1, Trouble.CRASH), 1),
    (random_plan(337), 337),
    (random_plan(322), 322),
)


def forks(rules: Rules) -> list[Base]:
    """The bases with more than one child."""
    return [base for base, children in Counter(rules.parents.values()).items() if children > 1]


def checked(plan: Plan, seed: int) -> Network:
    """Runs a plan: no rule is broken, no strong base is lost, and no quorum stood still without a reason."""
    network = run(plan, seed)
    assert strong_lost(network) == 0, f"seed {seed}"
    assert not is_stuck(network), f"seed {seed}"
    return network


# -- the faults of the rule before ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "seed"), COMMON_MEMBER, ids=["crash 131", "crash 1", "random 337", "random 322"]
)
def test_a_group_that_one_member_finished_is_not_made_again_by_the_others(plan, seed):
    """All agree, one stores the mean, and the others fall back: they are bound, and finish late."""
    network = checked(plan, seed)
    assert not forks(network.rules), f"seed {seed}"


@pytest.mark.parametrize("seed", [131])
def test_those_who_fell_back_end_on_the_base_of_the_one_who_finished(seed):
    assert len(checked(churn_plan(seed, Trouble.CRASH), seed).digests()) == 1


def test_a_swarm_that_starts_in_two_parts_is_one():
    network = checked(random_plan(267), 267)
    assert not forks(network.rules)
    assert len(network.digests()) == 1


LONG_CUTS = product((100.0, 200.0, 400.0), range(4))


@pytest.mark.sampled
@pytest.mark.parametrize(("until_s", "seed"), [(200.0, 1), *(soak(*each) for each in LONG_CUTS)])
def test_a_side_that_forgot_the_other_makes_no_strong_base(until_s, seed):
    """The five end before the partition does; the three make only weak bases meanwhile."""
    network = checked(long_cut(until_s), seed)
    strong = {base: peer.index for peer in network.peers for base in [peer.base] if base.is_strong}
    assert set(strong.values()) <= {0, 1, 2, 3, 4}, f"seed {seed}"
    assert len({peer.base for peer in network.peers[:5]}) == 1, f"seed {seed}"


@pytest.mark.sampled
@pytest.mark.parametrize("seed", [0, soak(1)])
def test_a_side_that_forgot_the_other_comes_back_to_it(seed):
    """Here the five are still there when the partition ends: the weak bases of the three give way."""
    network = checked(long_cut(250.0, rounds=32, train_s=(8.0, 10.0)), seed)
    assert len(forks(network.rules)) == 1, f"seed {seed}"
    assert len(network.digests()) == 1, f"seed {seed}"
    assert network.peers[0].base.is_strong, f"seed {seed}"


RETURNS_IN_SOAK = [random.Random(seed).sample(range(6), 6) for seed in range(20)]
BETWEEN_S = (0.3, 0.0, 2.0, 6.0)


def check_return(order: list[int], between_s: float, seed: int) -> None:
    """Checks that all six are in a sum within two rounds of each return."""
    network = checked(leave_and_return(order, between_s), seed)
    where = f"seed {seed}, {order}, {between_s} s"
    assert not forks(network.rules), where
    assert len(network.digests()) == 1, where
    all_back_at = START_S + FIRST_BACK_S + 5 * between_s
    whole = {sid for sid, members in network.rules.groups.items() if len(members) == 6}
    for peer in range(6):
        after = [outcome for outcome in outcomes(network, peer) if outcome.at_s > all_back_at]
        assert any(outcome.sid in whole for outcome in after[:2]), f"{where}: peer {peer}"


@pytest.mark.sampled("3")
@pytest.mark.parametrize("first", [0, 3, *soaks((1, 2, 4, 5))])
def test_six_leave_one_by_one_and_go_on_when_they_return_whoever_is_first(first):
    """Every leaver holds another base, and at most three of the six hold the newest."""
    check_return([first, *(peer for peer in range(6) if peer != first)], BETWEEN_S[0], first)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("between_s", BETWEEN_S)
def test_six_return_in_any_order(between_s, seed):
    check_return(RETURNS_IN_SOAK[seed], between_s, seed)


# -- the campaign --------------------------------------------------------------------------------------


LATER = range(FIRST_OF_SOAK, FIRST_OF_SOAK + EACH_IN_SOAK, SOAK_AT_ONCE)


@pytest.mark.sampled("crash-True-0-3")
@pytest.mark.parametrize(
    ("first", "count"),
    [(0, IN_CI), *(soak(first, SOAK_AT_ONCE) for first in LATER)],
)
@pytest.mark.parametrize(("trouble", "tracker"), KINDS)
def test_churn_loses_no_strong_base_and_leaves_nobody_standing(trouble, tracker, first, count):
    for seed in range(first, first + count):
        checked(churn_plan(seed, trouble, tracker), seed)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 400, 50))
def test_random_plans_lose_no_strong_base(first):
    for seed in range(first, first + 50):
        checked(random_plan(seed), seed)


def test_who_could_go_on_and_does_not_is_seen_to_be_stuck():
    """Messages take longer than any group may: all are up, and all their rounds fail."""
    slow = Plan(4, 6, Conditions(Links(delay_s=(3.0, 4.0))), Summation(timeouts=Deadlines(group_s=2.0)))
    assert is_stuck(run(slow, 1))


@pytest.mark.parametrize("seed", [111, 159], ids=["two of four offer", "messages are lost to the end"])
def test_who_cannot_go_on_is_not_stuck(seed):
    network = run(random_plan(seed), seed)
    assert all(peer.gave_up for peer in network.peers)
    assert not is_stuck(network)


def test_two_strong_bases_beside_each_other_are_seen():
    rules = Rules(Plan(4, 1), 5)
    first = Base(0, b"0" * 32, 0, b"0" * 32, 0)
    one, other = (Base(1, name * 32, 3, name * 32, 1) for name in (b"a", b"b"))
    rules.parents.update({one: first, other: first})
    rules.stored(0, one, first)
    with pytest.raises(Violation, match="seed 5: peer 1 stores a strong base beside another: a fork"):
        rules.stored(1, other, first)
    assert rules.lost([other]) == ([one], [])


# -- seeds at which the machines failed once -----------------------------------------------------------


@pytest.mark.parametrize("seed", [67, 156, 163, 235])
def test_who_starts_anew_can_take_the_late_result_of_its_open_vote(seed):
    """It kept the vote, but not what it needs to check the session's result."""
    checked(churn_plan(seed, Trouble.MIXED), seed)


def test_who_comes_back_when_the_partition_ends_ends_with_the_others():
    """Mixed plan 11: three agree while one is cut off, and coordinators die."""
    network = checked(churn_plan(11, Trouble.MIXED), 11)
    (base,) = {peer.base for peer in network.peers if peer.done}
    assert base.generation >= 4
