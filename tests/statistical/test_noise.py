"""The noise is Gaussian, has the requested std, and is independent: fixed seeds, stated error rates.

Each test is a fixed draw, so its result never varies. A fresh draw of the right distribution would exceed a
threshold with probability 1e-6; each planted fault must exceed it.
"""

import numpy as np
import pytest
from scipy.stats import chi2, norm, poisson

from mechanisms.noise.noise import _LAYERS, _WIDTHS, add_units, fill_gaussian, grid, noised
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


def test_draws_are_gaussian_in_each_part_of_a_block_and_a_std_that_is_a_percent_off_is_caught():
    for part in (slice(None), slice(0, 1 << 14), slice(1 << 14, 1 << 15)):
        assert chi_square(units()[part] / UNITS_A_STD) > ERROR_RATE
    for fault in (0.99, 1.01, 0.5, 2.0):
        assert chi_square(units(std=fault) / UNITS_A_STD) < ERROR_RATE, fault


@pytest.mark.parametrize("noise_std", [0.25, 3.0])
def test_noise_std_is_a_standard_deviation(noise_std):
    """Not a variance, for either of the two that give floats."""
    out = np.empty(DRAWS, dtype=np.float32)
    fill_gaussian(out, noise_std, SeededWords(np.random.default_rng(1)))
    assert chi_square(out.astype(np.float64), noise_std) > ERROR_RATE
    of_zeros = noised(np.zeros_like(out), noise_std, 1.0, SeededWords(np.random.default_rng(2)))
    assert chi_square(of_zeros.astype(np.float64), noise_std) > ERROR_RATE


MANY = 3, 1 << 22  # 12.6 million draws in all


@pytest.fixture(scope="module")
def many():
    """MANY, in std."""
    return np.stack([units(seed, count=MANY[1]) for seed in range(MANY[0])]) / UNITS_A_STD


def test_many_draws_are_gaussian_and_so_are_their_moments(many):
    """Of n draws the k-th has a variance of (mu_2k - mu_k^2) / n; Bonferroni for 8."""
    assert all(chi_square(draws) > ERROR_RATE for draws in many)
    values, moment = many.ravel(), {0: 1, 2: 1, 4: 3, 6: 15, 8: 105, 10: 945, 12: 10395}
    power = np.ones_like(values)
    for k in range(1, 7):
        power *= values
        mean = moment.get(k, 0)
        spread = np.sqrt((moment[2 * k] - mean**2) / len(values))
        assert abs(power.mean() - mean) < norm.isf(ERROR_RATE / 16) * spread


def test_each_tail_has_the_weight_of_a_gaussian_and_signs_are_fair(many):
    """Poisson, both sides on their own. Cells of a sign each end where the layers are few or many."""
    beyond = np.sort(many[np.abs(many) > 2.9])
    for edge in (3.0, 3.5, 4.0, 4.0453924, 4.2, 4.5, 5.0):
        expected = norm.sf(edge) * many.size
        for seen in (np.count_nonzero(beyond > edge), np.count_nonzero(beyond < -edge)):
            assert min(poisson.cdf(seen, expected), poisson.sf(seen - 1, expected)) > ERROR_RATE / 4, edge
    cells = np.histogram(many, [-9.0, -2.0, -1.0, -0.2, 0.0, 0.2, 1.0, 2.0, 9.0])[0]
    for negative, positive in zip(cells[:4], cells[:3:-1], strict=True):
        spread = np.sqrt(negative + positive) / 2
        assert abs(int(positive) - int(negative)) / 2 < norm.isf(ERROR_RATE / 8) * spread


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
