"""One-run audits: the p-value against the published form, brute force and the true maximum."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from mechanisms.audits.one_run import Guesses, coins, epsilon_lower_bound, guess, p_value
from tests.unit.mechanisms.settings import words

EPSILONS = (0.0, 0.5, 1.0, 3.0)


def accuracy(epsilon):
    return 1 / (1 + math.exp(-epsilon))


def published(m, r, v, epsilon, delta):
    """Theorem 5.2 term by term, with sums over the density."""
    density = binom(r, accuracy(epsilon)).pmf(np.arange(r + 1))
    windows = [density[max(0, v - i) : v].sum() / i for i in range(1, m + 1)]
    return density[v:].sum() + 2 * m * delta * max(windows)


def worst_case(m, r, v, epsilon, delta):
    """The largest P[at least v right] of all (epsilon, delta)-DP mechanisms and auditors, or above it.

    The mass P_k of k right answers, after averaging over all flips and orders of the coins, must keep
    sum_k (k P_k - e^eps (r - k + 1) P_{k-1})_+ <= m delta; in P_k = b_k x_k a rise of x at j costs j b_j.
    """
    of = binom(r, accuracy(epsilon))
    j = np.arange(1, r + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = (of.sf(np.maximum(j, v) - 1) - of.sf(v - 1) * of.sf(j - 1)) / (j * of.pmf(j))
    return of.sf(v - 1) + m * delta * gain[of.pmf(j) > 1e-280].max()


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("m", "r", "v"), [(1, 1, 1), (10, 6, 6), (30, 20, 19), (100, 100, 99)])
def test_the_p_value_is_the_published_one(m, r, v, epsilon):
    for delta in (0.0, 1e-5, 1e-3):
        expected = published(m, r, v, epsilon, delta)
        tail = binom.sf(v - 1, r, accuracy(epsilon))
        wanted = 1.0 if tail > 0.5 else min(1.0, expected)
        assert p_value(Guesses(m, r, v), epsilon, delta) == pytest.approx(wanted, rel=1e-9)


def test_known_lower_bounds_and_pure_p_values():
    """All of r right: p = q^r = alpha, so epsilon = -ln(alpha^(-1/r) - 1). The last is appendix D's."""
    assert p_value(Guesses(10, 10, 10), 1.0, 0.0) == pytest.approx(accuracy(1.0) ** 10)
    assert p_value(Guesses(10, 10, 5), 0.0, 0.0) == 1.0
    assert epsilon_lower_bound(Guesses(100, 100, 100), 0.0, 0.05) == pytest.approx(-math.log(0.05**-0.01 - 1))
    assert epsilon_lower_bound(Guesses(100, 100, 58), 0.0, 0.05) == 0.0
    assert epsilon_lower_bound(Guesses(1000, 600, 600), 1e-5, 0.05) == pytest.approx(5.270399463, abs=1e-8)


def test_the_published_bound_is_too_small_for_few_right_guesses_and_not_used_there():
    assert worst_case(3, 3, 1, 0.0, 0.01) == pytest.approx(0.88375)
    assert published(3, 3, 1, 0.0, 0.01) == pytest.approx(0.8825)
    assert p_value(Guesses(3, 3, 1), 0.0, 0.01) == 1.0


@pytest.mark.parametrize("r", [1, 2, 3, 5, 10, 40, 200, 1000])
def test_where_the_bound_is_used_it_is_above_the_true_maximum(r):
    for epsilon, m in itertools.product((0.0, 0.3, 1.0, 2.0, 5.0), (r, 3 * r)):
        delta = 1e-3 / m
        for v in np.unique(np.linspace(1, r, 25).astype(int)):
            if 1e-200 < binom.sf(v - 1, r, accuracy(epsilon)) <= 0.5:
                least = min(1.0, worst_case(m, r, v, epsilon, delta))
                assert p_value(Guesses(m, r, int(v)), epsilon, delta) >= least * (1 - 1e-9)


@pytest.mark.parametrize(("m", "r", "v", "delta"), [(50, 50, 45, 0.0), (200, 100, 90, 1e-5), (9, 9, 9, 1e-3)])
def test_p_values_rise_with_epsilon(m, r, v, delta):
    values = [p_value(Guesses(m, r, v), epsilon, delta) for epsilon in np.linspace(0, 12, 500)]
    assert np.all(np.diff(values) >= -1e-15)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize(("m", "r", "v"), [(100, 100, 80), (1000, 200, 199), (1000, 1000, 1000)])
def test_the_lower_bound_is_where_the_p_value_reaches_alpha(m, r, v, delta):
    guesses = Guesses(m, r, v)
    bound = epsilon_lower_bound(guesses, delta, 0.05)
    assert bound > 0.5
    assert p_value(guesses, bound, delta) < 0.05
    assert p_value(guesses, bound + 1e-9, delta) >= 0.05 * (1 - 1e-6)


def test_guesses_take_the_extreme_scores():
    scores = np.array([0.1, 0.9, 0.5, 0.7, -1.0])
    included = np.array([True, True, False, False, False])
    assert guess(scores, included, 2, 1) == Guesses(5, 3, 2)
    assert guess(scores, included, 1, 0) == Guesses(5, 1, 1)
    assert guess(scores, included, 0, 2) == Guesses(5, 2, 1)
    assert guess(scores, included, 2, 3) == Guesses(5, 5, 3)
    assert guess(np.zeros(4), np.array([True, False, False, True]), 1, 1) == Guesses(4, 2, 1)


def test_coins_are_fair_and_independent():
    """Within 5 sigma: a fresh draw fails with probability below 1e-5."""
    thrown = coins(100_000, words(1))
    assert thrown.dtype == np.bool_
    assert abs(thrown.mean() - 0.5) < 5 * 0.5 / math.sqrt(100_000)
    assert abs((thrown[1:] == thrown[:-1]).mean() - 0.5) < 5 * 0.5 / math.sqrt(100_000)


def guessed(**changed):
    good = {"scores": np.zeros(4), "included": np.zeros(4, dtype=bool), "highest": 1, "lowest": 2}
    return guess(**(good | changed))


THREE = Guesses(3, 3, 3)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: Guesses(0, 1, 1), ValueError, "canaries = 0"),
        (lambda: Guesses(5, 0, 0), ValueError, "made = 0"),
        (lambda: Guesses(5, 2, 3), ValueError, "correct = 3 of made = 2"),
        (lambda: Guesses(5, 6, 3), ValueError, "made = 6 guesses about canaries = 5"),
        (lambda: Guesses(5, 5, -1), ValueError, "correct = -1"),
        (lambda: Guesses(5, True, 1), TypeError, "made = True"),
        (lambda: guessed(scores=np.zeros((4, 1))), ValueError, r"scores of shape \(4, 1\)"),
        (lambda: guessed(scores=np.zeros(3)), ValueError, r"scores of shape \(3,\)"),
        (lambda: guessed(scores=np.full(4, np.nan)), ValueError, "NaN"),
        (lambda: guessed(highest=3), ValueError, r"3 \+ 2 guesses are not allowed: 1 to 4"),
        (lambda: guessed(highest=-1), ValueError, r"-1 \+ 2 guesses"),
        (lambda: guessed(highest=0, lowest=0), ValueError, r"0 \+ 0 guesses"),
        (lambda: p_value(THREE, -1.0, 0.0), ValueError, "epsilon = -1.0 is not allowed"),
        (lambda: p_value(THREE, math.nan, 0.0), ValueError, "epsilon = nan is not allowed"),
        *((lambda d=d: p_value(THREE, 1.0, d), ValueError, "is not allowed") for d in (-0.1, 1.0, math.nan)),
        *(
            (lambda a=a: epsilon_lower_bound(THREE, 0.0, a), ValueError, "alpha")
            for a in (0, 0.51, 1, math.nan)
        ),
    ],
)
def test_what_can_not_be_is_refused(call, error, said):
    with pytest.raises(error, match=said):
        call()
