"""Losses on a grid: the digits of dp-accounting, and never below what plain convolution gives."""

import math
from functools import reduce

import numpy as np
import pytest
from dp_accounting.pld.pld_pmf import DensePLDPmf
from scipy.fft import next_fast_len

from mechanisms.accounting import privacy_loss
from mechanisms.accounting.grid_losses import GridLosses, _transform_length

TAIL = 1e-9
FFT_ROUNDS = 1e-14
"""How far the masses of two different transforms may differ."""
CASES = [(1.5, 0.068, 200), (0.7, 0.0683, 10), (1.0, 0.01, 1000), (0.5, 0.1, 100), (0.3, 0.5, 10)]
CASES += [(20.0, 0.5, 10_000), (1.0, 0.999, 10), (2.0, 1e-4, 10_000), (0.05, 0.2, 3), (0.7, 0.2, 1)]


def theirs(losses: GridLosses) -> DensePLDPmf:
    return DensePLDPmf(losses.interval, losses.first, losses.masses.copy(), losses.infinite, True)


def of_one_step(z: float, q: float, steps: int) -> tuple[GridLosses, GridLosses]:
    one = privacy_loss.Sampled(z, q, steps)
    return privacy_loss._sampled_losses(one, privacy_loss._interval([one], [], TAIL), TAIL)


def random_losses(
    seed: int, size: int, first: int = -3, infinite: float = 0.0, step: float = 0.3
) -> GridLosses:
    masses = np.random.default_rng(seed).random(size)
    return GridLosses(step, first, masses * (1 - infinite) / masses.sum(), infinite)


@pytest.mark.parametrize(("z", "q", "steps"), CASES)
def test_repeated_losses_have_the_digits_of_dp_accounting(z, q, steps):
    for one in of_one_step(z, q, steps):
        with np.errstate(over="ignore"):
            known = theirs(one).self_compose(steps, TAIL)
        found = one.self_composition(steps, TAIL)
        assert (found.first, len(found.masses)) == (known._lower_loss, known.size)
        assert found.infinite == pytest.approx(known._infinity_mass, rel=1e-12)
        for delta in (1e-3, 1e-5, 1e-7):
            exact, digits = known.get_epsilon_for_delta(delta), FFT_ROUNDS / delta
            assert found.epsilon(delta) == pytest.approx(exact, rel=digits, abs=digits)
        for epsilon in (0.0, 0.3, 1.0, 8.0):
            exact = known.get_delta_for_epsilon(epsilon)
            assert found.delta(epsilon) == pytest.approx(exact, rel=1e-9, abs=FFT_ROUNDS)


@pytest.mark.parametrize("tail", [1e-9, 1e-3, 0.3])
def test_two_kinds_of_losses_together_have_the_digits_of_dp_accounting(tail):
    one, other = random_losses(1, 40, infinite=1e-4), random_losses(2, 70, first=-60, infinite=1e-3)
    found, known = one.plus(other, tail), theirs(one).compose(theirs(other), tail)
    assert (found.first, len(found.masses)) == (known._lower_loss, known.size)
    assert found.masses == pytest.approx(known._probs, rel=1e-9, abs=1e-15)
    assert found.infinite == pytest.approx(known._infinity_mass, rel=1e-9)
    assert found.infinite + found.masses.sum() == pytest.approx(1.0, abs=1e-12)
    assert found.epsilon(0.4) == pytest.approx(known.get_epsilon_for_delta(0.4), rel=1e-9)


@pytest.mark.parametrize(("times", "tail"), [(1, 1e-6), (2, 1e-3), (9, 1e-6), (30, 0.01), (300, 1e-4)])
def test_a_composition_is_never_below_the_exact_one_and_by_its_tail_above_it_at_most(times, tail):
    one = random_losses(times, 12, first=-5, infinite=1e-5)
    exact = reduce(np.convolve, [one.masses] * times)
    whole = GridLosses(one.interval, one.first * times, exact, -math.expm1(times * math.log1p(-one.infinite)))
    found = one.self_composition(times, tail)
    assert len(found.masses) <= len(exact)
    for epsilon in np.linspace(-2, 0.3 * 7 * times, 40):
        assert whole.delta(epsilon) - 1e-14 <= found.delta(epsilon) <= whole.delta(epsilon) + 2 * tail + 1e-14


@pytest.mark.parametrize("delta", [0.002, 0.1, 0.7])
def test_epsilon_is_the_least_one_whose_delta_is_small_enough(delta):
    losses = random_losses(4, 50, infinite=1e-3)
    epsilon = losses.epsilon(delta)
    assert losses.delta(epsilon * (1 + 1e-9)) <= delta < losses.delta(epsilon * (1 - 1e-9))
    assert epsilon == pytest.approx(theirs(losses).get_epsilon_for_delta(delta), rel=1e-12)


@pytest.mark.parametrize("delta", [0.002, 0.1, 0.7])
def test_losses_beyond_the_range_of_floats_have_an_epsilon_that_is_enough(delta):
    """No float is e^-loss, or none is e^loss."""
    huge = random_losses(4, 50, first=1200, infinite=1e-3, step=1.0)
    assert huge.delta(huge.epsilon(delta)) <= delta
    assert huge.epsilon(delta) == theirs(huge).get_epsilon_for_delta(delta)
    assert random_losses(4, 50, first=-8000, infinite=1e-3, step=1.0).epsilon(delta) == 0.0
    both = GridLosses(1000.0, -8, np.full(10, 0.1), 0.0)
    assert both.epsilon(0.05) == 1000.0


def test_ends_an_infinite_loss_has_no_epsilon_a_small_one_needs_none_and_a_large_tail_leaves_one_loss():
    assert random_losses(1, 5, infinite=0.01).epsilon(0.009) == math.inf
    assert random_losses(1, 5, first=-50).epsilon(0.1) == 0.0
    assert GridLosses(1.0, 0, np.zeros(3), 1e-9).epsilon(1e-3) == 0.0
    kept = random_losses(1, 4).plus(random_losses(2, 4), 2.5)
    assert (len(kept.masses), kept.delta(-100.0)) == (1, pytest.approx(1.0))


def test_transforms_have_the_next_length_with_small_factors():
    least = (1, 13, 16, 17, 1009, 65_537)
    assert [_transform_length(length) for length in least] == [next_fast_len(length) for length in least]
