"""Audits of a mechanism's code: run it often on two neighbouring inputs and try to tell the outputs apart.

The result is a lower bound on epsilon: with probability at most alpha it exceeds the least epsilon for which
the mechanism is (epsilon, delta)-DP. A bound above the claim refutes the claim; a bound below it proves
nothing. The auditor chooses the two inputs, best the worst neighbours that the claim allows. The result holds
for their unit, relation and norm.

    pair = Pair.of(x0, x1)                                    # a release without noise is the input itself
    scores = distinguish(release, pair, 100_000, words)
    bound = lower_bound(scores, delta=1e-5, alpha=0.05, method=Method.GAUSSIAN)
    print(bound.verdict(claim=1.0).words)

Fix the threshold of `lower_bound` before anybody looks at a score. `split_bound` chooses it on one half of
the runs and judges the other half. For several claims, divide alpha by their number (`level`): then the
probability that any sound claim is refuted is at most alpha.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mechanisms import arguments
from mechanisms.accounting import gaussian
from mechanisms.noise.randomness import Words

Array = NDArray[np.float64]

Release = Callable[[Array, Words], Array]
"""Runs a mechanism independently on each of (n, d) inputs; returns outputs (n, k). `each_row` makes one."""

BLOCK_ROWS = 1 << 14


class Method(StrEnum):
    """How an epsilon follows from true and false positive rates."""

    GAUSSIAN = "gaussian"
    """Only for Gaussian mechanisms and their compositions: the Gaussian trade-off curve through the rates
    (Dong, Roth, Su 2022, Definition 2.6; as in Nasr et al. 2023). It detects errors of a few percent."""
    RATIO = "ratio"
    """For any mechanism: the rates that (epsilon, delta) allows; Kairouz, Oh, Viswanath 2015, Theorem 2.1."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two neighbouring inputs, x0 and x1 (d,), and what is released of them without noise, y0 and y1 (k,)."""

    x0: Array
    x1: Array
    y0: Array
    y1: Array

    def __post_init__(self) -> None:
        for one, other, names in ((self.x0, self.x1, "x0, x1"), (self.y0, self.y1, "y0, y1")):
            if one.ndim != 1 or one.shape != other.shape:
                raise ValueError(
                    f"{names} of shapes {one.shape}, {other.shape} are not allowed: (n,) and the same"
                )
            if not (np.isfinite(one).all() and np.isfinite(other).all()):
                raise ValueError(f"{names} with NaN or infinity are not allowed: finite numbers")
        if np.array_equal(self.y0, self.y1):
            raise ValueError("y0 = y1 is not allowed: two inputs that are released alike")

    @classmethod
    def of(cls, x0: Array, x1: Array) -> Pair:
        """The pair for a mechanism that releases its input plus noise."""
        return cls(x0, x1, x0, x1)

    def score(self, released: Array) -> Array:
        """Returns scores (n,) of releases (n, k): the projection on y1 - y0, scaled to 0 at y0 and 1 at y1.

        For equal Gaussian noise in all coordinates no test is more powerful (Neyman & Pearson).
        """
        difference = self.y1 - self.y0
        return (released - self.y0) @ (difference / (difference @ difference))


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores (n,) of releases of x0 and of x1; from `threshold` on, a release is taken for one of x1."""

    of_x0: Array
    of_x1: Array
    threshold: float = 0.5

    def __post_init__(self) -> None:
        for name, scores in (("of_x0", self.of_x0), ("of_x1", self.of_x1)):
            if scores.ndim != 1 or not len(scores):
                raise ValueError(f"{name} of shape {scores.shape} is not allowed: (n,), at least one")
            if np.isnan(scores).any():
                raise ValueError(f"{name} with NaN is not allowed: a score for each run")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claimed epsilon survives the audit."""

    claim: float
    bound: EpsilonBound

    @property
    def is_refuted(self) -> bool:
        """Whether the lower bound is above the claim."""
        return self.bound.epsilon > self.claim

    @property
    def words(self) -> str:
        """The verdict in one line."""
        bound = self.bound
        sure = f"at delta {bound.delta:g} (confidence {1 - bound.alpha:g})"
        held = "refuted" if self.is_refuted else "not refuted"
        return f"epsilon is at least {bound.epsilon:.4g} {sure}: the claim of {self.claim:.4g} is {held}"


@dataclass(frozen=True, slots=True)
class EpsilonBound:
    """The epsilon at `delta` is at least `epsilon`; this is wrong with probability at most `alpha`.

    tpr_low: a lower bound on the share of releases of x1 that are taken for x1; fpr_high: an upper bound on
    the share of releases of x0 that are. Both hold together with confidence 1 - alpha.
    """

    epsilon: float
    delta: float
    alpha: float
    tpr_low: float
    fpr_high: float
    method: Method

    def verdict(self, claim: float) -> Verdict:
        """Compares this bound with `claim`, an epsilon at the same delta."""
        return Verdict(arguments.at_least_zero("claim", claim), self)


def each_row(release: Callable[[Array, Words], Array]) -> Release:
    """Makes a `Release` from a mechanism that takes one input (d,) and returns one output (k,)."""

    def rows(inputs: Array, words: Words) -> Array:
        return np.stack([np.asarray(release(row, words), dtype=np.float64) for row in inputs])

    return rows


def distinguish(
    release: Release,
    pair: Pair,
    trials: int,
    words: Words,
    *,
    score: Callable[[Array], Array] | None = None,
    threshold: float = 0.5,
) -> Scores:
    """Returns the scores of `trials` independent runs on each input of the pair.

    score: maps releases (n, k) to scores (n,), larger for releases that look like x1; by default
    `Pair.score`, with the midpoint as threshold. Fix both before you look at any release.
    """
    arguments.count("trials", trials)
    score_of = pair.score if score is None else score

    def scores(x: Array) -> Array:
        starts = range(0, trials, BLOCK_ROWS)
        sizes = [min(BLOCK_ROWS, trials - start) for start in starts]
        return np.concatenate([score_of(release(np.tile(x, (size, 1)), words)) for size in sizes])

    return Scores(scores(pair.x0), scores(pair.x1), threshold)


def lower_bound(scores: Scores, delta: float, alpha: float, method: Method) -> EpsilonBound:
    """Returns the lower bound on epsilon at `delta` (0 only with `Method.RATIO`) with confidence 1 - alpha.

    The two rates share alpha evenly; each has a one-sided Clopper-Pearson bound (1934).
    """
    arguments.probability("alpha", alpha)
    hits, false_hits = (int((of >= scores.threshold).sum()) for of in (scores.of_x1, scores.of_x0))
    tpr_low, _ = clopper_pearson(hits, len(scores.of_x1), alpha)
    _, fpr_high = clopper_pearson(false_hits, len(scores.of_x0), alpha)
    chosen = Method(method)
    of_rates = gaussian_epsilon if chosen is Method.GAUSSIAN else ratio_epsilon
    return EpsilonBound(of_rates(tpr_low, fpr_high, delta), delta, alpha, tpr_low, fpr_high, chosen)


def split_bound(scores: Scores, delta: float, alpha: float, method: Method) -> EpsilonBound:
    """`lower_bound` on the second halves of the scores, with the best threshold of the first halves.

    The halves are independent runs, so the bound holds with confidence 1 - alpha for any choice. Raises
    ValueError with fewer than two runs of an input.
    """
    first, second = halves(scores)
    threshold = best_threshold(first, delta, alpha, method)
    return lower_bound(replace(second, threshold=threshold), delta, alpha, method)


def halves(scores: Scores) -> tuple[Scores, Scores]:
    """Returns the first and the second halves of the runs, both with the threshold of `scores`."""
    middles = len(scores.of_x0) // 2, len(scores.of_x1) // 2
    if min(middles) < 1:
        raise ValueError("scores of fewer than 2 runs of an input are not allowed: there are no halves")
    return (
        Scores(scores.of_x0[: middles[0]], scores.of_x1[: middles[1]], scores.threshold),
        Scores(scores.of_x0[middles[0] :], scores.of_x1[middles[1] :], scores.threshold),
    )


_SHARES = special.expit(np.linspace(-10.0, 10.0, 161))
"""Candidates are these quantiles, evenly spaced in log odds: the best test may be far in a tail."""


def best_threshold(scores: Scores, delta: float, alpha: float, method: Method) -> float:
    """The threshold with the largest `lower_bound` on these scores. Judge others with it: here it is biased.

    The candidates are quantiles of the scores of x0 and of x1. Each of them is one of the scores.
    """
    of_each = [
        np.quantile(scores_of, _SHARES, method="inverted_cdf") for scores_of in (scores.of_x0, scores.of_x1)
    ]
    candidates = np.unique(np.concatenate(of_each))
    bounds = [
        lower_bound(replace(scores, threshold=float(one)), delta, alpha, method).epsilon for one in candidates
    ]
    return float(candidates[int(np.argmax(bounds))])


def level(alpha: float, claims: int) -> float:
    """alpha / claims: the alpha of each of `claims` audits, for alpha in all (Bonferroni; Dunn 1961).

    By the union bound, with probability at least 1 - alpha all lower bounds hold, and so no sound claim is
    refuted, whatever the audits have in common.
    """
    return arguments.probability("alpha", alpha) / arguments.count("claims", claims)


def clopper_pearson(hits: int, trials: int, alpha: float) -> tuple[float, float]:
    """Returns a lower and an upper bound on a probability, each wrong with probability at most alpha / 2."""
    low = special.betaincinv(hits, trials - hits + 1, alpha / 2) if hits else 0.0
    high = special.betainccinv(hits + 1, trials - hits, alpha / 2) if hits < trials else 1.0
    return float(low), float(high)


def gaussian_epsilon(tpr: float, fpr: float, delta: float) -> float:
    """Epsilon at `delta` of the Gaussian mechanism with these rates: 1 / z = Phi^-1(TPR) - Phi^-1(FPR)."""
    arguments.probability("delta", delta)
    if tpr <= fpr:
        return 0.0
    return gaussian.epsilon(delta, 1 / float(special.ndtri(tpr) - special.ndtri(fpr)))


def ratio_epsilon(tpr: float, fpr: float, delta: float) -> float:
    """The least epsilon >= 0 with TPR <= e^eps FPR + delta and 1 - FPR <= e^eps (1 - TPR) + delta."""
    if arguments.at_least_zero("delta", delta) >= 1:
        raise ValueError(f"delta = {delta!r} is not allowed: a number of at least 0 and below 1")
    return max(0.0, _log_ratio(tpr - delta, fpr), _log_ratio(1 - fpr - delta, 1 - tpr))


def _log_ratio(over: float, under: float) -> float:
    if over <= 0:
        return -math.inf
    return math.log(over / under) if under > 0 else math.inf
