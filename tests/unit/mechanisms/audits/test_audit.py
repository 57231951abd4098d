"""The audit's arithmetic: rates, their bounds, epsilons, against scipy and dp_accounting; what it refuses."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from mechanisms.accounting import gaussian
from mechanisms.audits import audit
from mechanisms.audits.audit import (
    EpsilonBound,
    Method,
    Pair,
    Scores,
    best_threshold,
    distinguish,
    each_row,
    halves,
    level,
    lower_bound,
    split_bound,
)
from tests.unit.mechanisms.settings import words

ZERO, ONE = np.zeros(2), np.array([3.0, 4.0])


def test_the_projection_is_0_at_one_end_and_1_at_the_other():
    pair = Pair(ZERO, ONE, ONE, -ONE)
    aside = ONE + np.array([4.0, -3.0])
    assert pair.score(np.stack((ONE, -ONE, ZERO, aside))) == pytest.approx([0.0, 1.0, 0.5, 0.0])
    assert Pair.of(ZERO, ONE).y1 is ONE


def test_runs_are_made_on_each_input_in_blocks(monkeypatch):
    seen = []

    def release(inputs, source):
        drawn = np.empty(len(inputs), dtype=np.uint32)
        source.fill(drawn)
        seen.append((inputs.shape, float(inputs[0, 0]), bool((inputs == inputs[0]).all())))
        return inputs + drawn[:, None] * 2.0**-40

    monkeypatch.setattr(audit, "BLOCK_ROWS", 4)
    scores = distinguish(release, Pair.of(ZERO, ONE), 10, words())
    assert seen == [((n, 2), x, True) for x in (0.0, 3.0) for n in (4, 4, 2)]
    assert scores.of_x0 == pytest.approx(np.zeros(10), abs=0.01)
    assert scores.of_x1 == pytest.approx(np.ones(10), abs=0.01)
    assert scores.threshold == 0.5
    assert len(np.unique(np.concatenate((scores.of_x0, scores.of_x1 - 1)))) == 20


def test_a_mechanism_for_one_input_and_a_score_of_ones_own():
    release, ends = each_row(lambda x, _words: x[:1] * 2), Pair.of(ZERO, ONE)
    scores = distinguish(release, ends, 3, words(), score=lambda rows: rows[:, 0] + 1, threshold=2.0)
    assert (scores.of_x0.tolist(), scores.of_x1.tolist(), scores.threshold) == ([1.0] * 3, [7.0] * 3, 2.0)


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (1, 10), (7, 10), (10, 10), (99_000, 100_000)])
def test_clopper_pearson_agrees_with_scipy(hits, trials):
    expected = binomtest(hits, trials).proportion_ci(0.95, "exact")
    assert audit.clopper_pearson(hits, trials, 0.05) == pytest.approx((expected.low, expected.high), rel=1e-9)


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_exact_rates_of_a_gaussian_give_its_epsilon(multiplier, delta):
    for threshold in (-1.0, 0.5, 2.0):
        tpr, fpr = norm.sf(threshold, 1, multiplier), norm.sf(threshold, 0, multiplier)
        if tpr < 1 - 1e-9 and fpr > 1e-300:
            found = audit.gaussian_epsilon(tpr, fpr, delta)
            assert found == pytest.approx(gaussian.epsilon(delta, multiplier), rel=1e-5)


def test_rates_that_tell_nothing_apart_give_0():
    assert audit.gaussian_epsilon(0.3, 0.3, 1e-5) == audit.gaussian_epsilon(0.2, 0.3, 1e-5) == 0.0
    assert audit.ratio_epsilon(0.2, 0.3, 0.0) == audit.ratio_epsilon(1e-6, 0.0, 1e-5) == 0.0


@pytest.mark.parametrize(
    ("rates", "ratio"),
    [((0.6, 0.2, 0.0), 3), ((0.61, 0.2, 0.01), 3), ((0.9, 0.4, 0.0), 6), ((0.9, 0.39, 0.01), 6)],
)
def test_ratios(rates, ratio):
    assert audit.ratio_epsilon(*rates) == pytest.approx(math.log(ratio))
    assert audit.ratio_epsilon(0.5, 0.0, 0.01) == audit.ratio_epsilon(1.0, 0.5, 0.01) == math.inf


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_no_rates_that_the_definition_allows_give_more(epsilon, delta):
    """On the edge of the region of (epsilon, delta) the ratio is epsilon, inside it is less."""
    for fpr in np.linspace(0.01, 0.99, 50):
        tpr = min(math.exp(epsilon) * fpr + delta, 1 - math.exp(-epsilon) * (1 - fpr - delta), 1 - 1e-12)
        found = audit.ratio_epsilon(tpr, fpr, delta)
        assert found <= epsilon + 1e-9
        if tpr < 1 - 1e-9:
            assert found == pytest.approx(epsilon, abs=1e-9)


@pytest.mark.parametrize("method", Method)
def test_the_bound_is_made_of_both_rates(method):
    scores = Scores(np.repeat([0.0, 1.0], [90, 10]), np.repeat([0.4, 0.5], [20, 80]))
    bound = lower_bound(scores, 1e-5, 0.05, method)
    low = binomtest(80, 100).proportion_ci(0.95, "exact").low
    high = binomtest(10, 100).proportion_ci(0.95, "exact").high
    of_rates = {Method.GAUSSIAN: audit.gaussian_epsilon, Method.RATIO: audit.ratio_epsilon}[method]
    assert (bound.tpr_low, bound.fpr_high) == pytest.approx((low, high))
    assert bound.epsilon == pytest.approx(of_rates(low, high, 1e-5))
    assert (bound.delta, bound.alpha, bound.method) == (1e-5, 0.05, method)
    assert lower_bound(scores, 1e-5, 0.05, method.value) == bound


def test_a_verdict_is_about_a_claim():
    bound = EpsilonBound(2.0, 1e-5, 0.05, 0.9, 0.1, Method.RATIO)
    assert [bound.verdict(claim).is_refuted for claim in (1.99, 2.0)] == [True, False]
    said = "epsilon is at least 2 at delta 1e-05 (confidence 0.95): the claim of 1.5 is refuted"
    assert bound.verdict(1.5).words == said
    assert bound.verdict(3).words.endswith("the claim of 3 is not refuted")
    with pytest.raises(ValueError, match=r"claim = nan"):
        bound.verdict(math.nan)


TOLD_APART = Scores(np.repeat([0.0, 1.0], [9, 1]), np.repeat([0.0, 1.0], [1, 9]))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Pair(ZERO, np.ones(3), ZERO, ONE), r"x0, x1 of shapes \(2,\), \(3,\)"),
        (lambda: Pair(ZERO, ONE, ZERO[None], ONE[None]), r"y0, y1 of shapes \(1, 2\)"),
        (lambda: Pair(ZERO, np.array([1.0, np.nan]), ZERO, ONE), "x0, x1 with NaN"),
        (lambda: Pair(ZERO, ONE, np.array([np.inf, 0.0]), ONE), "y0, y1 with NaN or infinity"),
        (lambda: Pair(ZERO, ONE, ONE, ONE), "y0 = y1"),
        (lambda: Scores(np.zeros(0), np.zeros(1)), r"of_x0 of shape \(0,\)"),
        (lambda: Scores(np.zeros(1), np.zeros((1, 1))), r"of_x1 of shape \(1, 1\)"),
        (lambda: Scores(np.array([np.nan]), np.zeros(1)), "of_x0 with NaN"),
        *((lambda n=n: distinguish(np.copy, Pair.of(ZERO, ONE), n, words()), "trials") for n in (0, -1, 2.0)),
        (lambda: lower_bound(TOLD_APART, 0.0, 0.05, Method.GAUSSIAN), "delta = 0"),
        (lambda: lower_bound(TOLD_APART, -0.1, 0.05, Method.RATIO), "delta = -0.1"),
        (lambda: lower_bound(TOLD_APART, 1.0, 0.05, Method.RATIO), "delta = 1.0"),
        (lambda: lower_bound(TOLD_APART, 1e-5, 0.0, Method.RATIO), "alpha = 0"),
        (lambda: lower_bound(TOLD_APART, 1e-5, 0.05, "guess"), "guess"),
        (lambda: level(0.01, 0), "claims = 0"),
        (lambda: level(1.0, 3), "alpha = 1"),
        (lambda: halves(Scores(np.zeros(1), np.zeros(9))), "fewer than 2 runs"),
        (lambda: halves(Scores(np.zeros(9), np.zeros(1))), "fewer than 2 runs"),
    ],
)
def test_what_can_not_be_is_refused(call, said):
    with pytest.raises((ValueError, TypeError), match=said):
        call()


def test_halves_are_the_first_and_the_second_runs():
    first, second = halves(Scores(np.arange(5.0), np.arange(4.0), 0.25))
    assert (first.of_x0.tolist(), second.of_x0.tolist()) == ([0, 1], [2, 3, 4])
    assert (first.of_x1.tolist(), second.of_x1.tolist()) == ([0, 1], [2, 3])
    assert first.threshold == second.threshold == 0.25


def test_the_best_threshold_has_the_largest_bound_even_far_in_a_tail():
    """x1 is beyond everything of x0 once in ten runs: only a threshold between 3 and 9 shows it."""
    usual = np.arange(4.0)
    scores = Scores(np.tile(usual, 250), np.concatenate((np.tile(usual, 225), np.full(100, 9.0))))
    assert best_threshold(scores, 1e-5, 0.05, Method.RATIO) == 9.0
    twice = Scores(np.tile(scores.of_x0, 2), np.tile(scores.of_x1, 2), scores.threshold)
    found = split_bound(twice, 1e-5, 0.05, Method.RATIO)
    assert found.epsilon > lower_bound(scores, 1e-5, 0.05, Method.RATIO).epsilon + 2


def test_what_the_first_half_shows_by_chance_is_judged_on_the_second():
    """The first runs are told apart by any threshold from 1 to 9, the second not at all."""
    scores = Scores(np.repeat([0.0, 5.0], 100), np.repeat([9.0, 5.0], 100))
    first, _ = halves(scores)
    assert best_threshold(first, 1e-5, 0.05, Method.RATIO) == 9.0
    assert lower_bound(first, 1e-5, 0.05, Method.RATIO).epsilon > 3
    bound = split_bound(scores, 1e-5, 0.05, Method.RATIO)
    assert (bound.epsilon, bound.tpr_low) == (0.0, 0.0)


def test_the_level_of_a_claim_is_divided_evenly():
    assert level(0.01, 25) == pytest.approx(4e-4)
