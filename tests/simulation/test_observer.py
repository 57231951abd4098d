"""An observer of all messages of a run learns no member's update, and no sum over part of a group."""

from dataclasses import replace

import pytest

from protocol.wire.messages import Sum
from scenarios.simulator.network import Network
from scenarios.simulator.plans import Plan, random_plan
from tests.simulation.observer import Basis, Observer
from tests.simulation.runs import group_that_loses_one, reasons, run


def test_the_observer_can_solve_equations():
    basis = Basis()
    a, b, c, mask = ("unit", "a"), ("unit", "b"), ("unit", "c"), ("mask", "m")
    basis.add({a: 1, mask: 1})
    basis.add({b: 1, mask: -1})
    assert basis.reduce({a: 1})
    assert not basis.reduce({a: 1, b: 1})
    basis.add({b: 1, c: 3})
    basis.add({c: 5})
    assert not basis.reduce({a: 1})


def test_overlapping_groups_of_which_the_first_failed():
    network = group_that_loses_one(reuse_offers=False)
    observer = Observer(network)
    overlapping = [observer.senders(sid) for sid in observer.sessions]
    assert (0, 1, 2, 3) in overlapping
    assert (0, 1, 2) in overlapping
    assert all(reasons(network, peer)[0] == "sums-timeout" for peer in (0, 1, 2))
    assert observer.exposed() == []


def test_the_sum_over_a_whole_group_is_known():
    observer = Observer(group_that_loses_one(reuse_offers=False))
    assert all(observer.knows(sid, observer.senders(sid)) for sid in observer.sessions)


def test_planted_fault_an_offer_that_is_made_again_exposes_who_left():
    observer = Observer(group_that_loses_one(reuse_offers=True))
    first = next(sid for sid in observer.sessions if observer.senders(sid) == (0, 1, 2, 3))
    assert (first, (3,)) in observer.exposed()


@pytest.mark.parametrize("colluders", [{0}, {2}, {0, 1}])
def test_members_who_collude_learn_the_sum_of_the_others_alone(colluders):
    network = group_that_loses_one(reuse_offers=False)
    assert Observer(network, colluders).exposed() == []


def test_all_but_one_colluding_know_the_last_ones_update():
    observer = Observer(run(Plan(4, 1), 1), colluders={0, 1, 2})
    assert observer.knows(observer.sessions[0], [3])


def additive_plan(seed: int) -> Plan:
    plan = random_plan(seed)
    return replace(plan, aggregation=replace(plan.aggregation, masked=None))


@pytest.mark.sampled("1", "3", "4", "5", "6", "7", "10", "11")
@pytest.mark.parametrize("seed", range(12))
def test_random_schedules(seed):
    network = run(additive_plan(seed), seed)
    assert Observer(network).exposed() == [], f"seed {seed}"


def test_random_schedules_show_failed_sessions_with_sums():
    """The test above would show nothing if every session ended well."""
    failed = sum(_sessions_that_failed(run(additive_plan(seed), seed)) for seed in range(12))
    assert failed >= 3


def _sessions_that_failed(network: Network) -> int:
    seen = {line.message.sid for line in network.transcript if isinstance(line.message, Sum)}
    return len(seen - network.rules.groups.keys())
