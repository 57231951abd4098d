"""Epsilon by the number of honest members: the published table, and what is refused."""

import pytest

from mechanisms.accounting.honest import at_honest
from mechanisms.accounting.ledger import Gaussian, Ledger, Pure, SampledGaussian, spent

Q, STEPS, DELTA = 4096 / 60000, 200, 1e-5


@pytest.mark.parametrize(
    ("z", "sized_for", "by_honest"),
    [
        (3.783, 6, {9: 0.81, 6: 1.00, 4: 1.22, 2: 1.67, 0: 3.6}),
        (1.605, 6, {9: 2.3, 6: 3.0, 4: 3.9, 2: 6.0, 0: 20}),
        (1.605, 2, {9: 1.4, 6: 1.7, 4: 2.1, 2: 3.0, 0: 7.7}),
    ],
)
def test_epsilon_follows_the_noise_that_the_honest_add(z, sized_for, by_honest):
    ledger = Ledger.of([SampledGaussian(z, Q, STEPS)])
    for honest, epsilon in by_honest.items():
        found = spent(at_honest(ledger, sized_for, honest), DELTA).epsilon
        assert found == pytest.approx(epsilon, rel=0.04)
    assert at_honest(ledger, sized_for, sized_for) == ledger


def test_what_is_not_gaussian_is_nobody_else_s_noise():
    ledger = Ledger.of([Gaussian(2.0), Pure(0.5), SampledGaussian(2.0, 0.5, 4)])
    assert at_honest(ledger, 3, 0) == Ledger.of([Gaussian(1.0), Pure(0.5), SampledGaussian(1.0, 0.5, 4)])


def test_numbers_of_members_are_whole_and_not_negative():
    for sized_for, honest in ((0, 1), (2, -1)):
        with pytest.raises(ValueError, match="is not allowed"):
            at_honest(Ledger(), sized_for, honest)
