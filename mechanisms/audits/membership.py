"""Membership inference by a threshold on the loss (Yeom et al. 2018, Adversary 2).

The attack's figures (`rates`, `auc`, `tpr_at`) describe one model and one data set; they prove nothing about
epsilon. `epsilon_lower_bound` proves something if a fair coin decided for each example whether the data
include it (mechanisms.audits.one_run). Clopper-Pearson bounds do not apply to the rates: the examples of one
run are not independent runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms import arguments
from mechanisms.audits import one_run
from mechanisms.audits.one_run import Guesses
from mechanisms.noise.randomness import Words

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Losses:
    """The losses (n,) of examples used in training, and (m,) of others from the same population.

    Infinite losses are allowed. Raises ValueError for NaN or if either part is empty.
    """

    members: Array
    others: Array

    def __post_init__(self) -> None:
        for name, losses in (("members", self.members), ("others", self.others)):
            if losses.ndim != 1 or not len(losses):
                raise ValueError(f"{name} of shape {losses.shape} are not allowed: (n,), at least one loss")
            if np.isnan(losses).any():
                raise ValueError(f"{name} with NaN are not allowed: a loss for each example")


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates at which the attack takes members (tpr) and others (fpr) for members."""

    tpr: float
    fpr: float

    @property
    def advantage(self) -> float:
        """TPR - FPR (Yeom et al. 2018, Definition 4): 0 for random guesses, 1 for certain knowledge."""
        return self.tpr - self.fpr


def best_threshold(losses: Losses) -> float:
    """The threshold with the largest advantage on these losses. Judge others with it (`halves`)."""
    candidates = np.unique(np.concatenate((losses.members, losses.others)))
    tpr = np.searchsorted(np.sort(losses.members), candidates, "right") / len(losses.members)
    fpr = np.searchsorted(np.sort(losses.others), candidates, "right") / len(losses.others)
    return float(candidates[np.argmax(tpr - fpr)])


def rates(losses: Losses, threshold: float) -> Rates:
    """The rates of the attack that takes an example with a loss of at most `threshold` for a member."""
    return Rates(float((losses.members <= threshold).mean()), float((losses.others <= threshold).mean()))


def advantage_at_most(epsilon: float, delta: float) -> float:
    """The largest expected advantage of any attack on training that is (epsilon, delta)-DP for one example.

    (e^eps - 1 + 2 delta) / (e^eps + 1), at most 1: the corner of the region of Kairouz, Oh, Viswanath 2015,
    Theorem 2.1. It is below e^eps - 1, the bound of Yeom et al. 2018, Theorem 1.
    """
    epsilon, delta = arguments.at_least_zero("epsilon", epsilon), arguments.at_least_zero("delta", delta)
    unlike = 2 * math.exp(-epsilon) / (1 + math.exp(-epsilon))
    return 1 - unlike * max(0.0, 1 - delta)


def auc(losses: Losses) -> float:
    """Area under the ROC curve: the probability that a member's loss is below another's; ties count half."""
    others = np.sort(losses.others)
    above = len(others) - np.searchsorted(others, losses.members, "right")
    not_below = len(others) - np.searchsorted(others, losses.members, "left")
    return float((above + not_below).mean() / (2 * len(others)))


def tpr_at(losses: Losses, fpr: float) -> float:
    """The largest TPR among thresholds whose FPR on these losses is at most `fpr` (0 to 1)."""
    if not 0 <= arguments.at_least_zero("fpr", fpr) <= 1:
        raise ValueError(f"fpr = {fpr!r} is not allowed: a number from 0 to 1")
    others = np.sort(losses.others)
    allowed = int(np.floor(fpr * len(others) * (1 + 1e-12)))  # 0.1 of 30 others is 3 of them
    if allowed >= len(others):
        return 1.0
    return float((losses.members < others[allowed]).mean())


def halves(losses: Losses, words: Words) -> tuple[Losses, Losses]:
    """Splits members and others into random halves, to choose a threshold on one and judge the other.

    Raises ValueError with fewer than two members or two others.
    """
    if min(len(losses.members), len(losses.others)) < 2:
        raise ValueError("losses of fewer than 2 members or 2 others are not allowed: there are no halves")
    first_members, second_members = _halves(losses.members, words)
    first_others, second_others = _halves(losses.others, words)
    return Losses(first_members, first_others), Losses(second_members, second_others)


def guesses(losses: Losses, threshold: float) -> Guesses:
    """Returns guesses about all examples: "in" if the loss is at most `threshold`, else "out"."""
    correct = np.count_nonzero(losses.members <= threshold) + np.count_nonzero(losses.others > threshold)
    examples = len(losses.members) + len(losses.others)
    return Guesses(examples, examples, int(correct))


def epsilon_lower_bound(losses: Losses, threshold: float, delta: float, alpha: float) -> float:
    """Returns a lower bound on the training's epsilon at `delta`, too high with probability at most alpha.

    Unit of privacy: one example; neighbours: add or remove it. The bound holds if fair coins decided which of
    these examples were in the training data, and if `threshold` was fixed before anybody saw these losses, or
    was chosen on other examples (`halves`).
    """
    return one_run.epsilon_lower_bound(guesses(losses, threshold), delta, alpha)


def _halves(values: Array, words: Words) -> tuple[Array, Array]:
    keys = np.empty(len(values), dtype=np.uint32)
    words.fill(keys)
    order = np.argsort(keys, kind="stable")
    middle = len(values) // 2
    return values[order[:middle]], values[order[middle:]]
