"""Audits with one training run (Steinke, Nasr, Jagielski 2023, Theorem 5.2 and appendix D), read as a test.

A fair coin decides for each of m canaries whether the data include it, and the mechanism runs once. From its
output the auditor guesses "in" or "out" for r canaries and abstains on the others; v guesses are right. If
the mechanism is (eps, delta)-DP, then with W ~ Binomial(r, 1 / (1 + e^-eps))

    P[at least v right] <= P[W >= v] + 2 m delta max_{1 <= i <= m} P[v > W >= v - i] / i.

This bound is too small for few right guesses. Take m = r = 3, v = 1, eps = 0, delta = .01, and a mechanism
that returns the three opposite bits with probability .11625 and each other answer with .12625. It is (0,
.01)-DP and reaches .88375, while the bound is .8825. So this module uses the bound only if P[W >= v] is at
most 1/2, as in every test that could refute anything. There it is above the true maximum over all mechanisms
and auditors, by symmetry a linear program in the number of right guesses. With b the density of W the maximum
is at most

    P[W >= v] + m delta max_{1 <= j <= r} (P[W >= max(j, v)] - P[W >= v] P[W >= j]) / (j b(j)).

Unit of privacy: one canary (an example, a gradient, a client: whatever the coin includes or leaves out).
Neighbours: add or remove it, or replace it, if the coin swaps it for another value. Fix the canaries and the
number of guesses before the run: if you choose r after you saw the output, the bound is too high.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mechanisms import arguments
from mechanisms.noise.randomness import Words

# The search raises epsilon in these steps, up to the first one that is not refuted.
_STEP = 0.125
_HALVINGS = 40
_LARGEST_TAIL = 0.5


@dataclass(frozen=True, slots=True)
class Guesses:
    """The auditor's result: `correct` of `made` guesses are right, about the coins of `canaries`."""

    canaries: int
    made: int
    correct: int

    def __post_init__(self) -> None:
        arguments.count("canaries", self.canaries)
        arguments.count("made", self.made)
        if not 0 <= self.correct <= self.made <= self.canaries:
            raise ValueError(
                f"correct = {self.correct} of made = {self.made} guesses about canaries = {self.canaries}"
                " is not allowed: 0 <= correct <= made <= canaries"
            )


def coins(canaries: int, words: Words) -> NDArray[np.bool_]:
    """Returns coins (m,) bool: whether the data include a canary, with probability 1/2, independently."""
    drawn = np.empty(arguments.count("canaries", canaries), dtype=np.uint32)
    words.fill(drawn)
    return drawn >= np.uint32(1 << 31)


def guess(scores: NDArray[np.float64], included: NDArray[np.bool_], highest: int, lowest: int) -> Guesses:
    """Guesses "in" for the `highest` largest scores and "out" for the `lowest` smallest ones.

    scores: (m,), larger for a canary that looks included; included: (m,), the coins. Of equal scores the
    first counts as the smallest. Raises ValueError on NaN, other shapes, no guess, or more than canaries.
    """
    if scores.ndim != 1 or scores.shape != included.shape:
        raise ValueError(
            f"scores of shape {scores.shape} are not allowed: that of the coins, {included.shape}"
        )
    if np.isnan(scores).any():
        raise ValueError("scores with NaN are not allowed: a number for each canary")
    if min(highest, lowest) < 0 or not 1 <= highest + lowest <= len(scores):
        raise ValueError(
            f"{highest} + {lowest} guesses are not allowed: 1 to {len(scores)} in all, none negative"
        )
    order = np.argsort(scores, kind="stable")
    right = np.count_nonzero(included[order[len(order) - highest :]])
    right += np.count_nonzero(~included[order[:lowest]])
    return Guesses(len(scores), highest + lowest, int(right))


def p_value(guesses: Guesses, epsilon: float, delta: float) -> float:
    """Returns a bound on the probability that an (epsilon, delta)-DP mechanism allows so many right guesses.

    epsilon: at least 0; delta: from 0 (pure) to below 1. A small value refutes the claim. The result is 1 if
    the bound with delta = 0 is above 1/2.
    """
    arguments.at_least_zero("epsilon", epsilon)
    if arguments.at_least_zero("delta", delta) >= 1:
        raise ValueError(f"delta = {delta!r} is not allowed: a number of at least 0 and below 1")
    return _p_value(guesses, epsilon, delta)


def epsilon_lower_bound(guesses: Guesses, delta: float, alpha: float) -> float:
    """Returns the largest epsilon below which every claim is refuted; 0 if no claim is refuted.

    With probability at most `alpha`, above 0 and at most 1/2, it exceeds the least epsilon for which the
    mechanism is (epsilon, delta)-DP.
    """
    if arguments.probability("alpha", alpha) > _LARGEST_TAIL:
        raise ValueError(f"alpha = {alpha!r} is not allowed: a number above 0 and at most {_LARGEST_TAIL}")
    if p_value(guesses, 0.0, delta) >= alpha:
        return 0.0
    low = 0.0
    while _p_value(guesses, low + _STEP, delta) < alpha:
        low += _STEP
    high = low + _STEP
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _p_value(guesses, middle, delta) < alpha else (low, middle)
    return low


def _p_value(guesses: Guesses, epsilon: float, delta: float) -> float:
    at_least = float(_tail(guesses.correct, guesses.made, epsilon))
    if at_least > _LARGEST_TAIL:
        return 1.0
    window = np.arange(1, guesses.correct + 1)  # a larger i adds nothing, as W >= 0
    below = _tail(guesses.correct - window, guesses.made, epsilon) - at_least
    return min(1.0, at_least + 2 * guesses.canaries * delta * float((below / window).max()))


def _tail(least: int | NDArray[np.int64], made: int, epsilon: float) -> NDArray[np.float64]:
    """P[W >= least] for W ~ Binomial(made, 1 / (1 + e^-epsilon)), elementwise."""
    least = np.asarray(least)
    some = np.maximum(least, 1)
    tail = special.betainc(some, made - some + 1, 1 / (1 + math.exp(-epsilon)))
    return np.where(least < 1, 1.0, tail)
