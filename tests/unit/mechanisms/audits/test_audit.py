"""The audit's arithmetic: rates, their bounds, epsilons, against scipy and dp_accounting; what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm

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
from mechanisms.noise.randomness import SeededWords

ZERO, ONE = np.zeros(2), np.array([3.0, 4.0])


def seeded(seed=1):
    return SeededWords(np.random.default_rng(seed))


def test_the_projection_is_0_at_one_end_and_1_at_the_other():
    pair = Pair(ZERO, ONE, ONE, -ONE)
    aside = ONE + np.array([4.0, -3.0])
    assert pair.score(np.stack((ONE, -ONE, ZERO, aside))) == pytest.approx([0.0, 1.0, 0.5, 0.0])
    assert Pair.of(ZERO, ONE).y1 is ONE


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((ZERO, np.ones(3), ZERO, ONE), r"x0, x1 of shapes \(2,\), \(3,\)"),
        ((ZERO, ONE, ZERO[None], ONE[None]), r"y0, y1 of shapes \(1, 2\)"),
        ((ZERO, np.array([1.0, np.nan]), ZERO, ONE), "x0, x1 with NaN"),
        ((ZERO, ONE, np.array([np.inf, 0.0]), ONE), "y0, y1 with NaN or infinity"),
        ((ZERO, ONE, ONE, ONE), "y0 = y1"),
    ],
)
def test_impossible_pairs_are_refused(ends, said):
    with pytest.raises(ValueError, match=said):
        Pair(*ends)


def test_runs_are_made_on_each_input_in_blocks(monkeypatch):
    seen = []

    def release(inputs, words):
        drawn = np.empty(len(inputs), dtype=np.uint32)
        words.fill(drawn)
        seen.append((inputs.shape, float(inputs[0, 0]), bool((inputs == inputs[0]).all())))
        return inputs + drawn[:, None] * 2.0**-40

    monkeypatch.setattr(audit, "BLOCK_ROWS", 4)
    scores = distinguish(release, Pair.of(ZERO, ONE), 10, seeded())
    assert seen == [((n, 2), x, True) for x in (0.0, 3.0) for n in (4, 4, 2)]
    assert scores.of_x0 == pytest.approx(np.zeros(10), abs=0.01)
    assert scores.of_x1 == pytest.approx(np.ones(10), abs=0.01)
    assert scores.threshold == 0.5
    assert len(np.unique(np.concatenate((scores.of_x0, scores.of_x1 - 1)))) == 20


def test_a_mechanism_for_one_input_and_a_score_of_ones_own():
    release = each_row(lambda x, _words: x[:1] * 2)
    scores = distinguish(
        release, Pair.of(ZERO, ONE), 3, seeded(), score=lambda rows: rows[:, 0] + 1, threshold=2.0
    )
    assert scores.of_x0.tolist() == [1.0] * 3
    assert scores.of_x1.tolist() == [7.0] * 3
    assert scores.threshold == 2.0


@pytest.mark.parametrize("trials", [0, -1, 2.0])
def test_there_is_at_least_one_run(trials):
    with pytest.raises((ValueError, TypeError), match="trials"):
        distinguish(each_row(lambda x, _words: x), Pair.of(ZERO, ONE), trials, seeded())


@pytest.mark.parametrize(
    ("of_x0", "of_x1", "said"),
    [
        (np.zeros(0), np.zeros(1), r"of_x0 of shape \(0,\)"),
        (np.zeros(1), np.zeros((1, 1)), r"of_x1 of shape \(1, 1\)"),
        (np.array([np.nan]), np.zeros(1), "of_x0 with NaN"),
    ],
)
def test_impossible_scores_are_refused(of_x0, of_x1, said):
    with pytest.raises(ValueError, match=said):
        Scores(of_x0, of_x1)


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (1, 10), (7, 10), (10, 10), (99_000, 100_000)])
def test_clopper_pearson_agrees_with_scipy(hits, trials):
    low, high = audit.clopper_pearson(hits, trials, 0.05)
    expected = binomtest(hits, trials).proportion_ci(0.95, "exact")
    assert (low, high) == pytest.approx((expected.low, expected.high), rel=1e-9)


def test_clopper_pearson_covers_as_it_says():
    """Exactly, over all outcomes: each side misses with probability alpha / 2 at most, and nearly that."""
    bounds = [audit.clopper_pearson(hits, 50, 0.1) for hits in range(51)]
    for p in (0.01, 0.2, 0.5, 0.93):
        density = binom(50, p).pmf(np.arange(51))
        assert sum(density[k] for k, (low, _) in enumerate(bounds) if low > p) <= 0.05
        assert sum(density[k] for k, (_, high) in enumerate(bounds) if high < p) <= 0.05


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_exact_rates_of_a_gaussian_give_its_epsilon(multiplier, delta):
    for threshold in (-1.0, 0.5, 2.0):
        tpr, fpr = norm.sf(threshold, 1, multiplier), norm.sf(threshold, 0, multiplier)
        if tpr < 1 - 1e-9 and fpr > 1e-300:
            found = audit.gaussian_epsilon(tpr, fpr, delta)
            assert found == pytest.approx(gaussian.epsilon(delta, multiplier), rel=1e-5)


def test_rates_that_tell_nothing_apart_give_0():
    assert audit.gaussian_epsilon(0.3, 0.3, 1e-5) == 0.0
    assert audit.gaussian_epsilon(0.2, 0.3, 1e-5) == 0.0
    assert audit.ratio_epsilon(0.2, 0.3, 0.0) == 0.0
    assert audit.ratio_epsilon(1e-6, 0.0, 1e-5) == 0.0


def test_ratios():
    assert audit.ratio_epsilon(0.6, 0.2, 0.0) == pytest.approx(math.log(3.0))
    assert audit.ratio_epsilon(0.61, 0.2, 0.01) == pytest.approx(math.log(3.0))
    assert audit.ratio_epsilon(0.9, 0.4, 0.0) == pytest.approx(math.log(6.0))
    assert audit.ratio_epsilon(0.9, 0.39, 0.01) == pytest.approx(math.log(6.0))
    assert audit.ratio_epsilon(0.5, 0.0, 0.01) == math.inf
    assert audit.ratio_epsilon(1.0, 0.5, 0.01) == math.inf


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
    tpr_low = binomtest(80, 100).proportion_ci(0.95, "exact").low
    fpr_high = binomtest(10, 100).proportion_ci(0.95, "exact").high
    of_rates = {Method.GAUSSIAN: audit.gaussian_epsilon, Method.RATIO: audit.ratio_epsilon}[method]
    expected = EpsilonBound(of_rates(tpr_low, fpr_high, 1e-5), 1e-5, 0.05, tpr_low, fpr_high, method)
    assert bound.tpr_low == pytest.approx(tpr_low)
    assert bound.fpr_high == pytest.approx(fpr_high)
    assert bound.epsilon == pytest.approx(expected.epsilon)
    assert (bound.delta, bound.alpha, bound.method) == (1e-5, 0.05, method)
    assert lower_bound(scores, 1e-5, 0.05, method.value) == bound


def test_a_verdict_is_about_a_claim():
    bound = EpsilonBound(2.0, 1e-5, 0.05, 0.9, 0.1, Method.RATIO)
    assert bound.verdict(1.99).refuted
    assert not bound.verdict(2.0).refuted
    assert (
        bound.verdict(1.5).words
        == "epsilon is at least 2 at delta 1e-05 (confidence 0.95): the claim of 1.5 is refuted"
    )
    assert bound.verdict(3).words.endswith("the claim of 3 is not refuted")
    with pytest.raises(ValueError, match=r"claim = nan"):
        bound.verdict(math.nan)


@pytest.mark.parametrize(
    ("delta", "alpha", "method", "said"),
    [
        (0.0, 0.05, Method.GAUSSIAN, "delta = 0"),
        (-0.1, 0.05, Method.RATIO, "delta = -0.1"),
        (1.0, 0.05, Method.RATIO, "delta = 1.0"),
        (1e-5, 0.0, Method.RATIO, "alpha = 0"),
        (1e-5, 0.05, "guess", "guess"),
    ],
)
def test_impossible_questions_are_refused(delta, alpha, method, said):
    scores = Scores(np.repeat([0.0, 1.0], [9, 1]), np.repeat([0.0, 1.0], [1, 9]))
    with pytest.raises(ValueError, match=said):
        lower_bound(scores, delta, alpha, method)


def test_halves_are_the_first_and_the_second_runs():
    first, second = halves(Scores(np.arange(5.0), np.arange(4.0), 0.25))
    assert (first.of_x0.tolist(), second.of_x0.tolist()) == ([0, 1], [2, 3, 4])
    assert (first.of_x1.tolist(), second.of_x1.tolist()) == ([0, 1], [2, 3])
    assert first.threshold == second.threshold == 0.25


@pytest.mark.parametrize("runs", [(1, 9), (9, 1)])
def test_one_run_has_no_halves(runs):
    with pytest.raises(ValueError, match="fewer than 2 runs"):
        halves(Scores(np.zeros(runs[0]), np.zeros(runs[1])))


def test_the_best_threshold_has_the_largest_bound_even_far_in_a_tail():
    """x1 is beyond everything of x0 once in ten runs: only a threshold between 3 and 9 shows it."""
    usual = np.arange(4.0)
    scores = Scores(np.tile(usual, 250), np.concatenate((np.tile(usual, 225), np.full(100, 9.0))))
    assert best_threshold(scores, 1e-5, 0.05, Method.RATIO) == 9.0
    found = split_bound(scores_of_both_halves(scores), 1e-5, 0.05, Method.RATIO)
    assert found.epsilon > lower_bound(scores, 1e-5, 0.05, Method.RATIO).epsilon + 2


def scores_of_both_halves(scores):
    return Scores(np.tile(scores.of_x0, 2), np.tile(scores.of_x1, 2), scores.threshold)


def test_what_the_first_half_shows_by_chance_is_judged_on_the_second():
    """The first runs are told apart by any threshold from 1 to 9, the second not at all."""
    scores = Scores(np.repeat([0.0, 5.0], 100), np.repeat([9.0, 5.0], 100))
    first, _ = halves(scores)
    threshold = best_threshold(first, 1e-5, 0.05, Method.RATIO)
    assert lower_bound(first, 1e-5, 0.05, Method.RATIO).epsilon > 3
    bound = split_bound(scores, 1e-5, 0.05, Method.RATIO)
    assert threshold == 9.0
    assert bound.epsilon == 0.0
    assert bound.tpr_low == 0.0


def test_the_level_of_a_claim_is_divided_evenly():
    assert level(0.01, 25) == pytest.approx(4e-4)
    with pytest.raises(ValueError, match="claims = 0"):
        level(0.01, 0)
    with pytest.raises(ValueError, match="alpha = 1"):
        level(1.0, 3)
