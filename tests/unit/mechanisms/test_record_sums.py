"""Noised sums over records: the noise is what the budget requires, on a public grid, and charged."""

import math

import numpy as np
import pytest

from mechanisms.accounting import gaussian
from mechanisms.accounting.ledger import Ledger, Relation, privacy_spent
from mechanisms.record_sums import COARSEST, FINEST, RecordSums, record_sums
from tests.unit.mechanisms.settings import refused, words

D = 40_000


def sums(epsilon=1.0, delta=1e-6, releases=2, record_norm=3.0) -> RecordSums:
    return record_sums(epsilon, delta, releases, record_norm)


@pytest.mark.parametrize(("epsilon", "releases"), [(0.1, 1), (0.1, 2), (4.0, 3)])
def test_all_releases_together_cost_the_budget(epsilon, releases):
    mechanism = sums(epsilon, releases=releases)
    ledger = Ledger(()).adding(mechanism.per_training * releases)
    assert privacy_spent(ledger, 1e-6).epsilon == pytest.approx(epsilon, rel=1e-6)
    assert privacy_spent(ledger, 1e-6).epsilon <= epsilon * (1 + 1e-9)
    assert privacy_spent(ledger.adding(mechanism.per_training), 1e-6).epsilon > epsilon
    assert mechanism.per_offer == ()
    assert mechanism.gradient is None


def test_one_release_is_private_by_theorem_8_for_the_norm_of_a_record():
    """A second way: the noise that was added, and the sensitivity, in the formula for delta itself."""
    mechanism = sums(0.7, releases=1, record_norm=math.sqrt(27))
    assert gaussian.delta(0.7, mechanism.noise_std / math.sqrt(27)) <= 1e-6 * (1 + 1e-9)
    assert gaussian.delta(0.7, 0.99 * mechanism.noise_std / math.sqrt(27)) > 1e-6


def test_the_noise_is_what_it_says_on_the_grid_and_new_each_time():
    mechanism, units = sums(0.5), np.zeros(D, np.int64)
    one, other = (mechanism.release(units, words(seed)) for seed in (1, 2))
    assert one.std() == pytest.approx(mechanism.noise_std, rel=0.02)
    assert abs(one.mean()) < 4 * mechanism.noise_std / math.sqrt(D)
    assert not np.array_equal(one, other)
    assert np.array_equal(np.rint(one / mechanism.unit), one / mechanism.unit)
    assert np.array_equal(units, np.zeros(D, np.int64)), "the argument is not changed"
    faint, sent = sums(1e6), np.arange(D, dtype=np.int64)
    through = faint.release(sent * round(1 / faint.unit), words())
    assert np.abs(through - sent).max() < 12 * faint.noise_std, "sums come through under the noise"


@pytest.mark.parametrize("epsilon", [1e-4, 0.01, 0.5, 8.0, 1e5])
def test_the_unit_is_public_a_power_of_two_and_fine_beside_the_noise(epsilon):
    mechanism = sums(epsilon)
    assert FINEST <= mechanism.unit <= COARSEST
    assert math.frexp(mechanism.unit)[0] == 0.5
    assert mechanism.unit <= max(FINEST, mechanism.noise_std / 1000)
    mechanism.release(np.zeros(3, np.int64), words())


def test_who_is_protected_from_what():
    mechanism = sums()
    assert mechanism.guarantee.unit.relation == Relation.ADD_REMOVE
    assert mechanism.guarantee.unit.words.startswith("one record (row) of a node's data, over the agreement;")
    assert (mechanism.guarantee.epsilon, mechanism.guarantee.delta) == (1.0, 1e-6)
    assert mechanism.name == "record-sums"
    assert "bounded by epsilon" in mechanism.protects


def test_what_can_not_be():
    refused(sums, epsilon=0.0, record_norm=-1.0)
    with pytest.raises(ValueError, match="0 is not allowed"):
        sums(releases=0)
