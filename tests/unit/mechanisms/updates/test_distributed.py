"""The mechanism whose noise all members share: its multiplier, its charge and its words."""

import math

import pytest

from mechanisms.accounting.honest import at_honest
from mechanisms.accounting.ledger import Ledger, SampledGaussian, rounded_up, spent
from mechanisms.mechanism import SharedSetting
from mechanisms.registry import MECHANISMS
from mechanisms.updates.distributed import charged_steps, distributed_dp
from tests.unit.mechanisms.settings import setting

SHARED = SharedSetting(honest=6, sampling_probability=0.07, expected_batch=4096.0, steps=200, members=64)


def made(epsilon=3.0, shared=SHARED, **changes):
    return distributed_dp(setting(epsilon=epsilon, delta=1e-5, shared=shared, sizes=(40, 10), **changes))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0, 8.0])
def test_all_steps_and_the_reserve_cost_what_the_budget_is(epsilon):
    mechanism = made(epsilon)
    (event,) = mechanism.per_offer
    whole = spent(Ledger.of([event] * charged_steps(200)), 1e-5).epsilon

    assert event == SampledGaussian(mechanism.shared.gradient.noise_multiplier, 0.07, 1)
    assert 0.99 * epsilon < whole <= epsilon
    assert mechanism.guarantee.epsilon == mechanism.guarantee.stated == epsilon
    assert mechanism.guarantee.honest == 6


def test_the_reserve_is_a_few_per_cent():
    assert [charged_steps(steps) for steps in (1, 25, 200, 1000)] == [4, 28, 210, 1042]


def test_with_fewer_honest_members_it_costs_more_and_with_more_less():
    mechanism = made()
    ledger = Ledger.of([SampledGaussian(mechanism.shared.gradient.noise_multiplier, 0.07, 200)])
    costs = [spent(at_honest(ledger, 6, honest), 1e-5).epsilon for honest in (9, 6, 4, 0)]

    assert costs == sorted(costs)
    assert costs[1] == spent(ledger, 1e-5).epsilon
    assert costs[3] > 4 * costs[1]


def test_all_members_compute_the_same_multiplier():
    """A calibration's last digits may differ between machines: four digits, rounded up, do not."""
    z = made().shared.gradient.noise_multiplier
    assert z == float(f"{z:.4g}")
    assert [rounded_up(value) for value in (1.00001, 0.12341, 98.7601, 2.5)] == [1.001, 0.1235, 98.77, 2.5]


def test_it_says_whom_it_trusts_and_adds_nothing_to_updates():
    mechanism = made()
    assert "at least 6 of them are honest" in mechanism.protects
    assert (mechanism.name, mechanism.gradient, mechanism.per_training, mechanism.bound) == (
        *("distributed-dp-sgd", None),
        *((), 0.0),
    )
    assert MECHANISMS["distributed-dp-sgd"](setting(shared=SHARED, sizes=(50,))).shared.size == 50


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"shared": None}, "shared = None"),
        ({"shared": SharedSetting(64, 0.07, 4096.0, 200, 64)}, "honest = 64 is not allowed: at most 63"),
        ({"shared": SharedSetting(6, 0.07, 1e12, 200, 64)}, "lower"),
    ],
)
def test_what_cannot_be_is_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        made(**changes)
    with pytest.raises(ValueError, match="calibration = 'linear-classic'"):
        MECHANISMS["distributed-dp-sgd"](setting(shared=SHARED, calibration="linear-classic"))


@pytest.mark.parametrize(
    "values",
    [(0, 0.5, 10.0, 5, 9), (1, 0.0, 10.0, 5, 9), (1, 1.5, 10.0, 5, 9), (1, 0.5, 0.0, 5, 9),
     (1, 0.5, math.inf, 5, 9), (1, 0.5, 10.0, 0, 9)],
)  # fmt: skip
def test_what_members_agree_on_is_checked(values):
    with pytest.raises(ValueError, match="is not allowed"):
        SharedSetting(*values)
