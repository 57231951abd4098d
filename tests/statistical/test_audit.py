"""Every mechanism passes its audit, and every planted fault is refuted: fixed seeds, stated error rates.

An audit of a fresh draw refutes a sound mechanism with probability ALPHA at most (Clopper-Pearson, both rates
together). Each planted fault is refuted at the same ALPHA, with n as in the benchmark for the small ones.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from benchmarks.audit.case import Case
from benchmarks.audit.findings import bounds, canary_guesses, cases
from benchmarks.audit.offers import gaussian_rows, opposite
from mechanisms.accounting import gaussian
from mechanisms.audits import membership, one_run
from mechanisms.audits.audit import Method, distinguish, lower_bound
from mechanisms.audits.membership import Losses
from mechanisms.audits.one_run import Guesses
from mechanisms.labels.flips import LabelDP, respond
from mechanisms.noise.randomness import SeededWords

ALPHA = 1e-4
FEW, FEWER, ABREAST = 800, 500, 10_000
"""Runs per side: of a sound mechanism; of a large fault; of gradient steps, which run many at once."""
SMALL_FAULTS = (
    "noise 10 % low",
    "one tensor without noise",
    "an event not in the ledger",
    "drawn twice, counted once",
)
CASES = cases()


def seeded(*seed):
    return SeededWords(np.random.default_rng(seed))


def audited(case: Case):
    many = case.delta == 0 or case.fault in SMALL_FAULTS
    few = ABREAST if "dp-sgd" in case.mechanism else FEWER if case.fault else FEW
    trials = case.trials if many else min(case.trials, few)
    (bound,) = bounds(replace(case, trials=trials, repeats=1), ALPHA)
    return bound.verdict(case.claim)


@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.fault], ids=lambda case: case.mechanism.replace(" ", "-")
)
def test_a_sound_mechanism_is_not_refuted(case):
    verdict = audited(case)
    assert not verdict.refuted, verdict.words
    found = verdict.bound.epsilon / case.claim
    assert found > case.least_found or case.least_found == 0, "an audit must find something to mean anything"


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.fault],
    ids=lambda case: f"{case.mechanism}: {case.fault}".replace(" ", "-"),
)
def test_a_planted_fault_is_refuted(case):
    verdict = audited(case)
    assert verdict.refuted, verdict.words


def test_false_alarms_are_as_rare_as_alpha_says():
    """200 audits of an exact calibration at alpha = .05: 22 alarms or more have probability < 1e-3."""
    release = gaussian_rows(gaussian.noise_std(1.0, 1e-5, 2.0))
    alarms = 0
    for seed in range(200):
        scores = distinguish(release, opposite(1), 1_000, seeded(3, seed))
        alarms += lower_bound(scores, 1e-5, 0.05, Method.GAUSSIAN).verdict(1.0).refuted
    assert alarms <= 21


def test_known_power():
    """Of 8 audits at claim 1, alpha .05, of noise 20 % low: none refutes it with n = 1e3, all with 1e5."""
    std = 0.8 * gaussian.noise_std(1.0, 1e-5, 2.0)
    for trials, least, most in ((1_000, 0, 1), (100_000, 8, 8)):
        refuted = 0
        for seed in range(8):
            scores = distinguish(gaussian_rows(std), opposite(1), trials, seeded(4, trials, seed))
            refuted += lower_bound(scores, 1e-5, 0.05, Method.GAUSSIAN).verdict(1.0).refuted
        assert least <= refuted <= most


@pytest.mark.parametrize(("epsilon", "classes"), [(0.0, 3), (1.0, 2), (1.0, 10), (3.0, 4)])
def test_responses_have_their_probabilities(epsilon, classes):
    """Pearson's chi-square over all classes; a fresh draw fails with probability 1e-6."""
    drawn = respond(np.full(200_000, 1), classes, epsilon, seeded(5, classes))
    counts = np.bincount(drawn, minlength=classes)
    expected = np.full(classes, 200_000 / (classes - 1 + math.exp(epsilon)))
    expected[1] *= math.exp(epsilon)
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert chi2.sf(statistic, classes - 1) > 1e-6


def test_one_run_bounds_are_rarely_above_epsilon():
    """100 coins at epsilon 1, the worst pure case: 200 runs, alpha .05, 23 alarms have probability < 1e-3."""
    words = seeded(6)
    alarms, found = 0, []
    for _ in range(200):
        coins = one_run.coins(100, words)
        answers = LabelDP(1.0, words)(coins)
        bound = one_run.epsilon_lower_bound(Guesses(100, 100, int((answers == coins).sum())), 0.0, 0.05)
        alarms += bound > 1.0
        found.append(bound)
    assert alarms <= 22
    assert 0.3 < np.median(found) < 0.9


def test_one_run_tells_a_noise_from_too_little():
    """Claim (1, 1e-5), 20 runs, alpha .05: 5 refute it with probability < 3e-3."""
    std = gaussian.noise_multiplier(1.0, 1e-5)
    assert sum(bound > 1.0 for bound in one_run_bounds(std)) <= 4
    assert all(bound > 1.0 for bound in one_run_bounds(std / 5))


def one_run_bounds(noise_std):
    words = seeded(7)
    return [one_run.epsilon_lower_bound(canary_guesses(noise_std, words), 1e-5, 0.05) for _ in range(20)]


def test_membership_bounds_hold_on_losses_of_randomised_response():
    """Losses show each coin with epsilon 1, the threshold is the other half's. 15 of 100 alarms: < 1e-3."""
    words, rng = seeded(8), np.random.default_rng(9)
    alarms = 0
    for _ in range(100):
        coins = one_run.coins(400, words)
        shown = LabelDP(1.0, words)(coins)
        losses = np.where(shown, 1.0, 2.0) + rng.uniform(0, 0.5, 400)
        chosen_on, judged_on = membership.halves(Losses(losses[coins], losses[~coins]), words)
        threshold = membership.best_threshold(chosen_on)
        alarms += membership.epsilon_lower_bound(judged_on, threshold, 0.0, 0.05) > 1.0
    assert alarms <= 14
