"""Noise of counts: what honest members add up to, what it costs beside training, what has room in a word."""

import math
from functools import partial

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from mechanisms.accounting import gaussian
from mechanisms.accounting.ledger import (
    Gaussian,
    Ledger,
    SampledGaussian,
    Terms,
    privacy_spent,
    sampled_noise_multiplier,
)
from mechanisms.accounting.terms import at_honest, with_terms
from mechanisms.gradients.shared_noise import rounding_ratio
from mechanisms.mechanism import CountPlan, SharedSetting
from mechanisms.noised_counts import COARSEST, CountGrid, CountNoise, count_noise, multiplier_beside
from mechanisms.units import ONE_RECORD
from mechanisms.updates.distributed import distributed_dp
from mechanisms.updates.record import dp_sgd
from tests.unit.mechanisms.settings import refused, setting, words

DELTA, MEMBERS, CELLS = 1e-5, 64, 20_000
SHARED = SharedSetting(honest=3, sampling_probability=0.05, expected_batch=500.0, steps=60, members=MEMBERS)


def grid(multiplier=8.0, honest=3, sensitivity=1.0) -> CountGrid:
    return CountGrid(CountNoise(multiplier, 4, honest), sensitivity, MEMBERS)


@pytest.mark.parametrize("honest", [0, 1, 3, 6])
@pytest.mark.parametrize("sensitivity", [1.0, math.sqrt(5)])
def test_the_noise_of_the_honest_and_oneself_is_the_declared_one(honest, sensitivity):
    """H + 1 members add z Delta together, with H = 0 each its own; all n of a group add what is stated."""
    one = grid(honest=honest, sensitivity=sensitivity)
    for count, declared in ((honest + 1, 8.0 * sensitivity), (7, one.sum_std(7))):
        sums = sum(one.add_noise(np.zeros(CELLS), words(seed)) for seed in range(count)) * one.unit
        assert sums.std() == pytest.approx(declared, rel=6 / math.sqrt(2 * CELLS))
        assert abs(sums.mean()) < 5 * declared / math.sqrt(CELLS)


def test_counts_come_through_in_whole_units_with_new_noise_each_time():
    one, counts = grid(), np.arange(CELLS, dtype=np.float64)
    before = counts.copy()
    first, other = (one.add_noise(counts, words(seed)) for seed in (1, 2))
    assert np.array_equal(first, np.rint(first))
    assert np.abs(first * one.unit - counts).max() < 11 * one.share_std
    assert not np.array_equal(first, other)
    assert np.array_equal(counts, before)


@pytest.mark.parametrize("multiplier", [1.0, 3.7, 100.0, 1e5])
@pytest.mark.parametrize("honest", [0, 63 - 1])
def test_the_grid_is_public_fine_beside_the_noise_and_divides_a_row(multiplier, honest):
    one = grid(multiplier, honest)
    assert one.unit <= COARSEST
    assert math.frexp(one.unit)[0] == 0.5
    assert rounding_ratio(one.share_std / one.unit, MEMBERS) < 1e-30, "no rounding tells anything"
    assert (1 / one.unit).is_integer()


@pytest.mark.parametrize("multiplier", [1.0, 100.0, 1e5])
def test_the_largest_counts_of_the_largest_group_do_not_wrap_around(multiplier):
    one = grid(multiplier)
    counts = np.full(CELLS, 1e12)
    total = sum(one.add_noise(counts, words(seed)) for seed in range(MEMBERS))
    assert np.abs(total).max() < 2**31
    assert np.abs(one.add_noise(-counts, words(2))).max() < 2**31 / MEMBERS + 11 * one.share_std / one.unit
    assert one.most * one.unit > 100_000, "rows of one member in one number"


def test_a_cut_moves_no_two_counts_further_apart():
    """The same noise words, with and without a row: the offers differ by that row, or less."""
    one = grid()
    edge = one.most * one.unit
    for count in (0.0, 10.0, edge - 1, edge, edge + 5):
        counts = np.array([count, 7.0, 0.0])
        row = np.array([1.0, 0.0, 0.0])
        moved = one.add_noise(counts + row, words(3)) - one.add_noise(counts, words(3))
        assert np.linalg.norm(moved) * one.unit <= one.sensitivity


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 8.0])
@pytest.mark.parametrize("share", [0.01, 0.2, 0.9])
def test_training_and_counts_together_cost_the_budget_by_another_accountant(epsilon, share):
    """dp-accounting composes the steps of a run with all its counts: never above epsilon, and close to it."""
    mechanism = distributed_dp(setting(epsilon=epsilon, counts=CountPlan(share, 5), shared=SHARED))
    rule, counts = mechanism.shared, mechanism.counts
    on_a_grid = partial(pld.from_gaussian_mechanism, value_discretization_interval=1e-3)
    one, q = rule.gradient.noise_multiplier, rule.gradient.sampling_probability
    steps, release = (
        on_a_grid(one, sampling_prob=q).self_compose(rule.steps),
        on_a_grid(counts.noise_multiplier),
    )
    theirs = steps.compose(release.self_compose(counts.releases)).get_epsilon_for_delta(DELTA)
    assert 0.95 * epsilon < theirs <= epsilon * 1.002  # their grid is coarser, and rounds up
    ledger = Ledger.of([SampledGaussian(rule.gradient.noise_multiplier, 0.05, rule.steps)])
    ledger = ledger.adding([counts.event] * counts.releases)
    assert privacy_spent(ledger, DELTA).epsilon <= epsilon


@pytest.mark.parametrize(("rows", "batch"), [(300, 16), (16, 16)])
def test_dp_sgd_s_own_steps_leave_the_budget_for_its_counts(rows, batch):
    """Sampled steps, and steps on all rows, for which there is a closed form."""
    made = setting(epsilon=2.0, rows=rows, batch_size=batch, counts=CountPlan(0.3, 4))
    mechanism = dp_sgd(made)
    ledger = Ledger.of([*mechanism.per_training * made.rounds, *[mechanism.counts.event] * 4])
    assert privacy_spent(ledger, DELTA).epsilon <= 2.0 * (1 + 1e-9)
    assert privacy_spent(ledger, DELTA).epsilon == pytest.approx(2.0, rel=0.01)
    assert mechanism.counts.honest == 0
    assert mechanism.rule.noise_multiplier > dp_sgd(setting(epsilon=2.0, rows=rows)).rule.noise_multiplier


def test_counts_by_themselves_cost_at_most_their_share_by_theorem_8():
    found = count_noise(CountPlan(0.25, 9), 4.0, DELTA, honest=2)
    assert gaussian.delta(1.0, found.noise_multiplier / 3) <= DELTA
    assert gaussian.delta(1.0, 0.998 * found.noise_multiplier / 3) > DELTA
    assert found.event == Gaussian(found.noise_multiplier)
    assert found.composed_multiplier == pytest.approx(found.noise_multiplier / 3)
    shared = with_terms(Ledger.of([found.event]), Terms("a", ONE_RECORD, 3))
    alone = at_honest(shared, 0)
    assert alone == Ledger.of([Gaussian(found.noise_multiplier / 2)]), "if fewer are honest it costs more"
    assert count_noise(CountPlan(0.9, 1), 1e6, DELTA, honest=0).noise_multiplier == 1.0, "a row has noise"


def test_without_counts_nothing_changes():
    for make in (distributed_dp, dp_sgd):
        assert make(setting(shared=SHARED)).counts is None
    assert multiplier_beside(None) == math.inf
    alone = sampled_noise_multiplier(3.0, DELTA, 0.1, 50)
    assert alone == sampled_noise_multiplier(3.0, DELTA, 0.1, 50, math.inf)


def test_what_can_not_be_is_refused():
    with pytest.raises(ValueError, match="drowns them; raise epsilon or metric_share, or count less often"):
        grid(multiplier=1e6, honest=0)
    refused(grid, sensitivity=0.0)
    refused(partial(CountGrid, CountNoise(8.0, 4, 3), 1.0), members=0)
    for values in ((0.0, 3), (1.5, 3), (0.2, 0)):
        with pytest.raises(ValueError, match="is not allowed"):
            CountPlan(*values)
    whole = gaussian.noise_multiplier(3.0, DELTA)
    for q in (0.1, 1.0):
        with pytest.raises(ValueError, match="which is the whole budget"):
            sampled_noise_multiplier(3.0, DELTA, q, 50, whole)


def test_a_person_counts_once_in_whole_units():
    """Two rows in one cell, two in two cells, and a row alone: three persons in all."""
    grid = CountGrid(CountNoise(4.0, 5, 2), 1.0, 8)
    places, persons = np.array([[0], [0], [1], [2], [2]]), np.array([0, 0, 1, 1, 2])
    found = grid.count_persons(places, np.ones((5, 1)), persons, 3)
    assert found.tolist() == [1.0, 0.5, 1.5]
