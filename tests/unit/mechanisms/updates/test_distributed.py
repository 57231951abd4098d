"""The mechanism whose noise all members share: its multiplier, its charge and its words."""

import math
from dataclasses import replace
from functools import partial

import pytest

from mechanisms.accounting.ledger import Ledger, SampledGaussian, Terms, privacy_spent, rounded_up
from mechanisms.accounting.terms import CELLS, at_honest, with_terms
from mechanisms.mechanism import CountPlan, SharedSetting
from mechanisms.registry import MECHANISMS
from mechanisms.units import ONE_PERSON, ONE_RECORD
from mechanisms.updates.distributed import charged_steps, distributed_dp
from mechanisms.updates.record import dp_sgd
from tests.unit.mechanisms.settings import refused, setting

SHARED = SharedSetting(honest=6, sampling_probability=0.07, expected_batch=4096.0, steps=200, members=64)


def made(epsilon=3.0, shared=SHARED, **changes):
    return distributed_dp(setting(epsilon=epsilon, delta=1e-5, shared=shared, sizes=(40, 10), **changes))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0, 8.0])
def test_all_steps_and_the_reserve_cost_what_the_budget_is(epsilon):
    """A calibration's last digits may differ between machines: four digits, rounded up, do not."""
    mechanism = made(epsilon)
    (event,) = mechanism.per_offer
    z = mechanism.shared.gradient.noise_multiplier
    assert (event, z) == (SampledGaussian(z, 0.07, 1), float(f"{z:.4g}"))
    assert 0.99 * epsilon < privacy_spent(Ledger.of([event] * charged_steps(200)), 1e-5).epsilon <= epsilon
    assert mechanism.guarantee.epsilon == mechanism.guarantee.stated == epsilon
    assert mechanism.guarantee.honest == 6
    assert [rounded_up(value) for value in (1.00001, 0.12341, 98.7601, 2.5)] == [1.001, 0.1235, 98.77, 2.5]
    assert [charged_steps(steps) for steps in (1, 25, 200, 1000)] == [4, 28, 210, 1042], "a few per cent"


def test_with_fewer_honest_members_it_costs_more_and_with_more_less():
    mechanism = made()
    ledger = Ledger.of([SampledGaussian(mechanism.shared.gradient.noise_multiplier, 0.07, 200)])
    ledger = with_terms(ledger, Terms(mechanism.name, ONE_RECORD, 6))
    costs = [privacy_spent(at_honest(ledger, honest), 1e-5).epsilon for honest in (9, 6, 4, 0)]
    assert costs == sorted(costs)
    assert costs[1] == privacy_spent(ledger, 1e-5).epsilon
    assert costs[3] > 4 * costs[1]


def test_it_says_whom_it_trusts_and_adds_nothing_to_updates():
    mechanism = made()
    assert "at least 6 of them are honest" in mechanism.protects
    assert (mechanism.name, mechanism.gradient) == ("distributed-dp-sgd", None)
    assert (mechanism.per_training, mechanism.bound) == ((), 0.0)
    assert MECHANISMS["distributed-dp-sgd"](setting(shared=SHARED, sizes=(50,))).shared.size == 50


@pytest.mark.parametrize(
    ("shared", "said"),
    [
        (None, "shared = None"),
        (SharedSetting(64, 0.07, 4096.0, 200, 64), "honest = 64 is not allowed: at most 63"),
        (SharedSetting(6, 0.07, 1e12, 200, 64), "lower"),
    ],
)
def test_what_cannot_be_is_refused(shared, said):
    with pytest.raises(ValueError, match=said):
        made(shared=shared)
    with pytest.raises(ValueError, match="calibration = 'linear-classic'"):
        MECHANISMS["distributed-dp-sgd"](setting(shared=SHARED, calibration="linear-classic"))
    refused(partial(replace, SHARED), honest=0, sampling_probability=0.0, expected_batch=0.0, steps=0)
    refused(partial(replace, SHARED), sampling_probability=1.5, expected_batch=math.inf)


@pytest.mark.parametrize(
    ("each", "unit", "words"), [(None, ONE_RECORD, "record (row)"), (8, ONE_PERSON, "person")]
)
def test_the_unit_is_a_person_where_rows_of_a_person_are_clipped_together(each, unit, words):
    found = made(rows_per_person=each)
    alone = dp_sgd(setting(rows_per_person=each))
    assert (found.guarantee.unit, alone.guarantee.unit) == (unit, unit)
    assert f"about whether any one {words} is in your data" in found.protects
    assert f"clipped for each {words} and noised" in alone.protects
    assert found.shared == made().shared, "the noise is the same"


def test_cells_before_the_steps_and_as_many_in_reserve_cost_their_part_of_the_budget():
    mechanism, without = made(cells=CountPlan(0.1, 2)), made()
    cells = mechanism.planned_cells
    assert (len(cells), without.planned_cells, {each.terms.mechanism for each in cells}) == (4, (), {CELLS})
    planned = Ledger.of([*cells[:2], *mechanism.per_offer * charged_steps(200)])
    assert 0.98 * 3 < privacy_spent(planned, 1e-5).epsilon <= 3
    assert privacy_spent(Ledger.of([*cells, *mechanism.per_offer * charged_steps(200)]), 1e-5).epsilon <= 3
    assert 0.099 * 3 < privacy_spent(Ledger.of(cells[:2]), 1e-5).epsilon <= 0.1 * 3


def test_who_takes_the_part_of_all_has_the_noise_of_all():
    for mechanism in (made(), made(cells=CountPlan(0.1, 2))):
        loud = mechanism.louder(2.0)
        assert loud.shared.gradient.noise_multiplier == 2 * mechanism.shared.gradient.noise_multiplier
        assert (loud.cells is None) == (mechanism.cells is None)
    assert loud.cells.noise_multiplier == 2 * mechanism.cells.noise_multiplier
