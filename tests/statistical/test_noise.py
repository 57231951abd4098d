"""The noise is Gaussian, has the requested std, and is independent: fixed seeds, stated error rates.

Each test is a fixed draw, so its result never varies. A fresh draw of the right distribution would exceed a
threshold with probability 1e-6; each planted fault must exceed it.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm, poisson

from mechanisms.noise.noise import _LAYERS, _WIDTHS, add_units, gaussian, grid, noised
from mechanisms.noise.randomness import SeededWords

ERROR_RATE = 1e-6
DRAWS = 1 << 20
UNITS_A_STD = 2.0**19
CELLS = 200


def units(seed=0, std=1.0, count=DRAWS):
    """(count,) integers, `UNITS_A_STD` to 1."""
    out = np.zeros(count)
    add_units(out, std, 1 / UNITS_A_STD, SeededWords(np.random.default_rng(seed)))
    return out


def chi_square(values, std=1.0):
    """p-value of (n,) values against N(0, std^2) over cells that are equally probable."""
    cells = np.minimum(CELLS - 1, (norm.cdf(values / std) * CELLS).astype(int))
    counts = np.bincount(cells, minlength=CELLS)
    expected = len(values) / CELLS
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), CELLS - 1))


@pytest.mark.parametrize("part", [slice(None), slice(0, 1 << 14), slice(1 << 14, 1 << 15)])
def test_draws_are_gaussian_in_each_part_of_a_block(part):
    assert chi_square(units()[part] / UNITS_A_STD) > ERROR_RATE


@pytest.mark.parametrize("fault", [0.99, 1.01, 0.5, 2.0])
def test_a_std_that_is_a_percent_off_is_caught(fault):
    assert chi_square(units(std=fault) / UNITS_A_STD) < ERROR_RATE


@pytest.mark.parametrize("noise_std", [0.25, 3.0])
def test_noise_std_is_a_standard_deviation(noise_std):
    """Not a variance, for either of the two that give floats."""
    out = np.empty(DRAWS, dtype=np.float32)
    gaussian(out, noise_std, SeededWords(np.random.default_rng(1)))
    assert chi_square(out.astype(np.float64), noise_std) > ERROR_RATE
    of_zeros = noised(np.zeros_like(out), noise_std, 1.0, SeededWords(np.random.default_rng(2)))
    assert chi_square(of_zeros.astype(np.float64), noise_std) > ERROR_RATE


SEEDS = range(3)
MANY = 1 << 22  # 12.6 million draws in all


@pytest.fixture(scope="module")
def many():
    """(3, MANY) in std."""
    return np.stack([units(seed, count=MANY) for seed in SEEDS]) / UNITS_A_STD


@pytest.mark.parametrize("seed", SEEDS)
def test_many_draws_are_gaussian(many, seed):
    assert chi_square(many[seed]) > ERROR_RATE


def test_moments(many):
    """Of n draws the k-th has a variance of (mu_2k - mu_k^2) / n; Bonferroni for 8."""
    values, moment = many.ravel(), {0: 1, 2: 1, 4: 3, 6: 15, 8: 105, 10: 945, 12: 10395}
    power = np.ones_like(values)
    for k in range(1, 7):
        power *= values
        mean = moment.get(k, 0)
        spread = np.sqrt((moment[2 * k] - mean**2) / len(values))
        assert abs(power.mean() - mean) < norm.isf(ERROR_RATE / 16) * spread


@pytest.mark.parametrize("edge", [3.0, 3.5, 4.0, 4.0453924, 4.2, 4.5, 5.0])
def test_each_tail_has_the_weight_of_a_gaussian(many, edge):
    """Poisson, both sides on their own: the sign is fair there, too."""
    expected = norm.sf(edge) * many.size
    for values in (many, -many):
        beyond = np.count_nonzero(values > edge)
        assert min(poisson.cdf(beyond, expected), poisson.sf(beyond - 1, expected)) > ERROR_RATE / 4


def test_beyond_the_edge_draws_follow_the_tail(many):
    """Kolmogorov-Smirnov: strips in the wrong proportion, or unjudged, would show."""
    beyond = np.abs(many[np.abs(many) > 4.05])
    assert kstest(beyond, lambda x: 1 - norm.sf(x) / norm.sf(4.05)).pvalue > ERROR_RATE


def test_signs_are_fair(many):
    for low, high in ((0.0, 0.2), (0.2, 1.0), (1.0, 2.0), (2.0, 9.0)):
        inside = many[(np.abs(many) > low) & (np.abs(many) < high)]
        positive = np.count_nonzero(inside > 0)
        assert abs(positive - len(inside) / 2) < norm.isf(ERROR_RATE / 8) * np.sqrt(len(inside)) / 2


def test_the_centre_and_the_edges_of_layers_are_smooth(many):
    """Cells that end at widths of layers: a wrong core, height or width shows in its own cell."""
    edges = np.unique(np.concatenate([[0.0], _WIDTHS[1:_LAYERS:8], [np.inf]]))
    counts = np.histogram(np.abs(many).ravel(), edges)[0]
    expected = 2 * np.diff(norm.cdf(edges)) * many.size
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1) > ERROR_RATE


def test_neighbours_are_independent():
    """Correlations of values, of squares and across: N(0, 1/n) each, 16 of them, Bonferroni."""
    values = units() / UNITS_A_STD
    limit = norm.isf(ERROR_RATE / 32)
    for lag in (1, 2, 256, 1 << 15):
        first, second = values[lag:], values[:-lag]
        for left, right in ((first, second), (first**2, second**2), (first, second**2), (first**2, second)):
            assert abs(np.corrcoef(left, right)[0, 1]) * np.sqrt(len(left)) < limit


def test_low_bits_of_units_are_fair_and_independent_of_the_rest():
    """Layer and position share no bits: parity goes with neither sign nor size."""
    values = units(5)
    odd = values % 2 != 0
    for chosen in (values > 0, values < 0, np.abs(values) > UNITS_A_STD, np.abs(values) < UNITS_A_STD / 4):
        count, odds = np.count_nonzero(chosen), np.count_nonzero(odd & chosen)
        assert abs(odds - count / 2) < norm.isf(ERROR_RATE / 8) * np.sqrt(count) / 2


def test_low_digits_of_a_sum_tell_nothing_of_the_summand():
    """Mironov 2012: with floats added, low bits tell 0 from 0.3. Here each is even half of the time."""
    spacing = grid(1.0, 1.0)
    for value in (0.0, 0.3, 2.0**-30):
        vector = np.full(1 << 18, value / 512, dtype=np.float32)
        got = noised(vector, 1.0, 1.0, SeededWords(np.random.default_rng(3))).astype(np.float64) / spacing
        assert np.array_equal(got, np.rint(got))
        even = np.count_nonzero(got % 2 == 0)
        assert abs(even - (1 << 17)) < norm.isf(ERROR_RATE / 2) * np.sqrt(1 << 16)


def test_rounding_is_centred():
    """Mean of units with a std of 1 unit: floor in the place of rint would move it by half a unit."""
    out = np.zeros(DRAWS)
    add_units(out, 1.0, 1.0, SeededWords(np.random.default_rng(4)))
    assert abs(out.mean()) * np.sqrt(DRAWS) < norm.isf(ERROR_RATE / 2) * np.sqrt(1 + 1 / 12)
    expected = np.diff(norm.cdf(np.arange(-4, 5) - 0.5)) * DRAWS
    counts = np.array([np.count_nonzero(out == k) for k in range(-4, 4)])
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts)) > ERROR_RATE
