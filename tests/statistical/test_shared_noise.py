"""The noise in a decoded sum is what the claim needs, and each planted fault shows (the residual test).

Ten members, seven of them honest; what colluders added is known to them and taken off. What is left is the
decoded sum minus a float64 sum of the same rows (mechanisms.audits.residuals has the statistics). All draws
are fixed; a right mechanism would be refuted with probability 1e-6.
"""

import numpy as np
import pytest

from benchmarks.audit.shared.faults import faults, faulty_rule, no_fault, ring_sum
from mechanisms.audits.residuals import Residuals, finding
from mechanisms.gradients.dp_sgd import GradientRule
from mechanisms.gradients.shared_noise import SharedNoise, in_ring
from mechanisms.noise.noise import add_units
from mechanisms.noise.randomness import SeededWords

ERROR_RATE = 1e-6
SIZE, STEPS, MEMBERS, HONEST = 8_000, 10, 10, 7
GRADIENT = GradientRule(clipping_radius=1.0, noise_multiplier=1.605, sampling_probability=1.0)
RULE = SharedNoise(GRADIENT, HONEST - 1, 400.0, MEMBERS, SIZE, STEPS)


def residuals(fault, seed=0, again=False):
    """What is left of STEPS sums. `again`: each step has the words of the first."""
    rng = np.random.default_rng(seed)
    left, toward = [], []
    for step in range(STEPS):
        words = SeededWords(np.random.default_rng([seed, 0 if again else step + 1]))
        rows = rng.normal(size=(HONEST, SIZE)) * 0.3
        offers = []
        for share, row in zip(fault.shares, rows, strict=True):
            units = np.rint(row / RULE.unit)
            add_units(units, faulty_rule(RULE, share, 1.0).share_std, RULE.unit, words)
            offers.append(in_ring(units))
        toward.append(rows.sum(0))
        left.append(faulty_rule(RULE, 1.0, fault.scale).decode(ring_sum(offers)) - toward[-1])
    return Residuals(np.stack(left), np.stack(toward), GRADIENT.noise_std)


def test_the_noise_of_the_honest_is_what_is_claimed():
    found = finding(residuals(no_fault(HONEST)), ERROR_RATE)
    assert not found.is_refuted, found.words


@pytest.mark.parametrize("fault", faults(HONEST, MEMBERS), ids=lambda fault: fault.name.replace(" ", "-"))
def test_planted_faults_show(fault):
    assert finding(residuals(fault), ERROR_RATE).is_refuted


def test_noise_that_is_used_twice_shows():
    assert finding(residuals(no_fault(HONEST), again=True), ERROR_RATE).refuted_by == ("repeat",)
