"""Audits the cases of all mechanisms, and makes a figure of each result."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.audit.case import DELTA, EPSILON, FEW, REPEATS, Case
from benchmarks.audit.offers import gaussian_rows, offer_cases
from benchmarks.audit.records import record_cases
from benchmarks.audit.shared.findings import SHARED
from benchmarks.spec import Figure, figure
from mechanisms.accounting import gaussian
from mechanisms.audits import one_run
from mechanisms.audits.audit import EpsilonBound, distinguish, lower_bound
from mechanisms.noise.randomness import SeededWords, Words
from node.errors import ConfigError

ALPHA = 0.05
REFUTED_AT_LEAST = 0.95
ONE_RUN, CANARIES, GUESSES = "gaussian, one run", 1_000, 100


def findings(only: str | None, quick: bool) -> Iterator[Figure]:
    """Yield the figures of the mechanisms with `only` in their names. Raises ConfigError if there is none."""
    names = [*dict.fromkeys(case.mechanism for case in cases()), ONE_RUN, *SHARED]
    chosen = [name for name in names if only is None or only in name]
    if not chosen:
        raise ConfigError(f"--only {only}: allowed is a part of a name: {'; '.join(names)}")
    return _all(chosen, quick)


def _all(chosen: list[str], quick: bool) -> Iterator[Figure]:
    for case in cases():
        if case.mechanism in chosen:
            yield finding(quicker(case) if quick else case)
    if ONE_RUN in chosen:
        yield from one_run_findings(1 if quick else REPEATS)
    for name in SHARED:
        if name in chosen:
            yield from SHARED[name](quick)


def cases() -> list[Case]:
    """Return all cases that are audited by many runs."""
    return [*offer_cases(), *record_cases()]


def quicker(case: Case) -> Case:
    """Return the case with one repeat, and for a sound mechanism with fewer runs: it needs no power."""
    return replace(case, trials=case.trials if case.fault else min(case.trials, FEW), repeats=1)


def bounds(case: Case, alpha: float = ALPHA) -> list[EpsilonBound]:
    """Return the lower bound of each repeat; the seeds follow from the names."""
    found = []
    for repeat in range(case.repeats):
        words = seeded(case.mechanism, case.fault, repeat)
        scores = distinguish(
            case.release, case.pair, case.trials, words, score=case.score, threshold=case.threshold
        )
        found.append(lower_bound(scores, case.delta, alpha, case.method))
    return found


def seeded(*names: object) -> Words:
    """Return random words with a seed that follows from the names."""
    return SeededWords(np.random.default_rng(zlib.crc32(repr(names).encode())))


def finding(case: Case) -> Figure:
    """Return a sound mechanism's lower bound, at most the claim, or how often a faulty one is refuted."""
    epsilons = [bound.epsilon for bound in bounds(case)]
    return _figure(
        case.mechanism, case.fault, epsilons, case.claim, f"n = {case.trials} a side, {case.method}"
    )


def _figure(mechanism: str, fault: str, epsilons: list[float], claim: float, how: str) -> Figure:
    refuted = sum(epsilon > claim for epsilon in epsilons)
    note = f"claim {claim:.4g} refuted {refuted}/{len(epsilons)}; {how}"
    if not fault:
        return figure("audit", mechanism, "epsilon is at least", "", epsilons, claim, note)
    share = [refuted / len(epsilons)]
    note = f"epsilon is at least {np.median(epsilons):.4g}; {note}"
    return figure("audit", mechanism, fault, "refuted", share, note=note, at_least=REFUTED_AT_LEAST)


# -- one run of many canaries ------------------------------------------------------------------------


def one_run_findings(repeats: int) -> Iterator[Figure]:
    """Yield the figures of a sum of canaries, one per coordinate, each of norm 1: the sensitivity is 1."""
    multiplier = gaussian.noise_multiplier(EPSILON, DELTA)
    for fault, share in (("", 1.0), ("a quarter of the noise", 0.25)):
        epsilons = [
            one_run.epsilon_lower_bound(canary_guesses(share * multiplier, words), DELTA, ALPHA)
            for words in (seeded(ONE_RUN, fault, repeat) for repeat in range(repeats))
        ]
        how = f"{CANARIES} canaries, {2 * GUESSES} guesses"
        yield _figure(ONE_RUN, fault, epsilons, EPSILON, how)


def canary_guesses(noise_std: float, words: Words) -> one_run.Guesses:
    """Guess from one noised sum: canaries of the largest coordinates are in, those of the smallest out."""
    included = one_run.coins(CANARIES, words)
    scores = gaussian_rows(noise_std)(included[None].astype(np.float64), words)[0]
    return one_run.guess(scores, included, GUESSES, GUESSES)
