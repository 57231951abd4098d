"""Membership inference: figures on small cases by hand and by brute force, and the bound on epsilon."""

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from mechanisms.audits import membership, one_run
from mechanisms.audits.membership import Losses, Rates
from tests.unit.mechanisms.settings import refused, words

BY_HAND = Losses(np.array([0.0, 1.0, 1.0, 4.0]), np.array([1.0, 2.0, 5.0]))


def random_losses(seed, members=40, others=30):
    rng = np.random.default_rng(seed)
    return Losses(rng.integers(0, 12, members) * 1.0, rng.integers(4, 16, others) * 1.0)


def test_rates_at_a_threshold():
    assert membership.rates(BY_HAND, 1.0) == Rates(0.75, pytest.approx(1 / 3))
    assert membership.rates(BY_HAND, 0.5) == Rates(0.25, 0.0)
    assert membership.rates(BY_HAND, 1.0).advantage == pytest.approx(0.75 - 1 / 3)
    assert membership.best_threshold(BY_HAND) == 1.0
    for threshold in (1.0, 4.0):
        assert membership.guesses(BY_HAND, threshold) == one_run.Guesses(7, 7, 5), (
            "members below, others above"
        )


@pytest.mark.parametrize("seed", range(5))
def test_figures_agree_with_brute_force(seed):
    losses = random_losses(seed)
    every = np.unique(np.concatenate((losses.members, losses.others, [-1.0])))
    points = [membership.rates(losses, threshold) for threshold in every]
    best = membership.rates(losses, membership.best_threshold(losses))
    assert best.advantage == max(point.advantage for point in points)
    for fpr in (0.0, 0.1, 1 / 3, 0.5, 0.9, 1.0):
        most = max(point.tpr for point in points if point.fpr <= fpr + 1e-12)
        assert membership.tpr_at(losses, fpr) == most
    is_member = np.concatenate((np.ones(40), np.zeros(30)))
    expected = roc_auc_score(is_member, -np.concatenate((losses.members, losses.others)))
    assert membership.auc(losses) == pytest.approx(expected, abs=1e-12)


def test_extremes():
    perfect, alike = Losses(np.zeros(3), np.ones(5)), Losses(np.ones(3), np.ones(5))
    assert (membership.auc(perfect), membership.tpr_at(perfect, 0.0)) == (1.0, 1.0)
    assert membership.auc(alike) == 0.5
    assert [membership.tpr_at(alike, fpr) for fpr in (0.0, 0.99, 1.0)] == [0.0, 0.0, 1.0]
    assert membership.auc(Losses(np.array([1.0]), np.array([math.inf]))) == 1.0
    refused(lambda fpr: membership.tpr_at(BY_HAND, fpr), fpr=1.1)
    refused(lambda fpr: membership.tpr_at(BY_HAND, fpr), fpr=math.nan)


def test_an_fpr_that_is_a_whole_number_of_others_counts_them_all():
    """0.7 * 10 is 7 exactly, and 0.29 * 100 is 28.999999999999996 in doubles."""
    others = np.arange(100.0)
    assert membership.tpr_at(Losses(np.array([28.0]), others), 0.29) == 1.0
    assert membership.tpr_at(Losses(np.array([29.0]), others), 0.29) == 0.0


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0])
def test_the_largest_advantage_is_that_of_randomised_response(epsilon):
    kept = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert membership.advantage_at_most(epsilon, 0.0) == pytest.approx(2 * kept - 1, abs=1e-15)
    delta = 0.01
    formula = (math.exp(epsilon) - 1 + 2 * delta) / (math.exp(epsilon) + 1)
    assert membership.advantage_at_most(epsilon, delta) == pytest.approx(formula)
    assert membership.advantage_at_most(1000.0, 0.0) == membership.advantage_at_most(0.0, 2.0) == 1.0


def test_the_bound_on_epsilon_is_that_of_one_run():
    losses = Losses(np.arange(100.0), np.arange(100.0) + 90)
    expected = one_run.epsilon_lower_bound(one_run.Guesses(200, 200, 190), 1e-5, 0.05)
    assert membership.epsilon_lower_bound(losses, 94.5, 1e-5, 0.05) == expected
    assert expected > 1.5


def test_halves_part_the_losses_at_random():
    losses = Losses(np.arange(100.0), np.arange(7.0) + 1000)
    first, second = membership.halves(losses, words(1))
    assert (len(first.members), len(second.members)) == (50, 50)
    assert (len(first.others), len(second.others)) == (3, 4)
    for part in ("members", "others"):
        both = np.concatenate((getattr(first, part), getattr(second, part)))
        assert sorted(both) == list(getattr(losses, part))
    assert 15 <= np.count_nonzero(first.members < 50) <= 35
    again, _ = membership.halves(losses, words(2))
    assert not np.array_equal(np.sort(first.members), np.sort(again.members))
    for members, others in ((1, 5), (5, 1)):
        with pytest.raises(ValueError, match="fewer than 2"):
            membership.halves(Losses(np.zeros(members), np.zeros(others)), words(1))


@pytest.mark.parametrize(
    ("members", "others", "said"),
    [
        (np.zeros(0), np.zeros(3), r"members of shape \(0,\)"),
        (np.zeros(3), np.zeros((3, 1)), r"others of shape \(3, 1\)"),
        (np.zeros(3), np.array([1.0, np.nan]), "others with NaN"),
    ],
)
def test_impossible_losses_are_refused(members, others, said):
    with pytest.raises(ValueError, match=said):
        Losses(members, others)
