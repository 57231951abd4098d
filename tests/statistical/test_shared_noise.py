"""The noise in a decoded sum is what the claim needs, and each planted fault shows (the residual test).

Ten members, seven of them honest; what colluders added is known to them and taken off. The residual is the
decoded sum minus a float64 sum of the same rows; its squares over the claimed variance follow chi-squared.
All draws are fixed; a right mechanism would exceed the threshold with probability 1e-6.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from mechanisms.gradients.distributed import SharedNoise, in_ring
from mechanisms.gradients.dp_sgd import GradientRule
from mechanisms.noise.noise import add_units
from mechanisms.noise.randomness import SeededWords

ERROR_RATE = 1e-6
SIZE, STEPS, MEMBERS, HONEST = 8_000, 10, 10, 7
GRADIENT = GradientRule(clipping_radius=1.0, noise_multiplier=1.605, sampling_probability=1.0)
RULE = SharedNoise(GRADIENT, HONEST - 1, 400.0, MEMBERS, SIZE, STEPS)


def residuals(std_of, decoded=1.0, seed=0):
    """(STEPS SIZE,): what is left of decoded sums; `std_of(k)` is the noise that the honest member k adds."""
    rng = np.random.default_rng(seed)
    left = []
    for _ in range(STEPS):
        rows = rng.normal(size=(HONEST, SIZE)) * 0.3
        words = np.zeros(SIZE, dtype=np.uint32)
        for member in range(HONEST):
            units = np.rint(rows[member] / RULE.unit)
            if std_of(member) > 0:
                add_units(units, std_of(member), RULE.unit, SeededWords(rng))
            words += in_ring(units)
        left.append(RULE.decoded(words) * decoded - rows.sum(0))
    return np.concatenate(left)


def p_value(left):
    """Two-sided, of the sum of squares in units of the claimed variance z^2 C^2."""
    total = float((left**2).sum() / (GRADIENT.noise_std) ** 2)
    return 2 * min(chi2.cdf(total, len(left)), chi2.sf(total, len(left)))


def test_the_noise_of_the_honest_is_what_is_claimed():
    assert p_value(residuals(lambda _: RULE.share_std)) > ERROR_RATE


@pytest.mark.parametrize(
    ("std_of", "decoded"),
    [
        (lambda member: 0.0 if member == 0 else RULE.share_std, 1.0),  # one adds none
        (lambda _: GRADIENT.noise_multiplier / np.sqrt(HONEST + 1), 1.0),  # sized for 8 instead of 7
        (lambda _: GRADIENT.noise_multiplier / np.sqrt(MEMBERS), 1.0),  # divided among all ten
        (lambda _: GRADIENT.noise_multiplier / HONEST, 1.0),  # the std divided, not the variance
        (lambda member: RULE.share_std if member == 0 else 0.0, 1.0),  # only one's own
        (lambda _: RULE.share_std, 1.02),
        (lambda _: RULE.share_std, 0.98),
    ],
)
def test_planted_faults_show(std_of, decoded):
    assert p_value(residuals(std_of, decoded)) < ERROR_RATE
