"""Estimators of the mean from a sample's clipped updates, and how far one user can move them.

McMahan, Ramage, Talwar & Zhang 2018 (arXiv 1710.06963), Section 3. A user with n_k rows has the weight
w_k = min(n_k / w_hat, 1); W is the sum over all users, treated as public. C is the sample, ||Delta_k|| <= S:

    f_f(C) = sum_C w_k Delta_k / (q W)                        noise of z S / (q W)
    f_c(C) = sum_C w_k Delta_k / max(q W_min, sum_C w_k)      noise of 2 z S / (q W_min)

Lemma 1 there: adding or removing one user moves f_f by at most S / (q W), and f_c by at most 2 S / (q W_min),
in the L2 norm. For f_f this follows from w_k <= 1. For f_c, exactly: let m = q W_min, s the sample's weight
without the user, A its sum (||A|| <= s S), w <= 1 the user's weight and v its term (||v|| <= w S):

    s + w <= m:      v / m                                at most S w / m
    s <= m < s + w:  (A + v) / (s + w) - A / m            at most S (w + s (s + w - m) / m) / (s + w)
    m < s:           (A + v) / (s + w) - A / s            at most S 2 w / (s + w)

All increase with w, so take w = 1. The second is convex in s, and largest at an end: 2 S / (m + 1) at s = m,
or no more than that at the other end, S / m (or S, at s = 0, if m < 1). The third is smaller. The first is at
most S / m, and at most S if m < 1, as then w <= m. So the sensitivity of f_c is 2 S / (m + 1). It is reached:
let everybody in a sample with s = m have Delta_k = -S u, and the user v = S u. Lemma 1 holds, with a margin.

The noised value is on a grid (mechanisms.noise.noise). f_f truncates every user's term to the grid before the
sum, which does not change the sensitivity. f_c truncates the quotient: neighbours may then differ by sqrt(d)
more steps. That is within the margin of Lemma 1, or else the noise is larger by it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.arguments import count, positive
from mechanisms.noise.clipping import Floats
from mechanisms.noise.noise import grid

Doubles = NDArray[np.float64]
Weighted = Sequence[tuple[Floats, float]]
"""Updates Delta_k (d,), each with its w_k."""


class Estimator(Protocol):
    """Estimates the mean of a sample's clipped updates: f_f or f_c. q: `sampling_probability`, S: `clip`."""

    def noise_std(self, noise_multiplier: float, sampling_probability: float, clip: float, d: int) -> float:
        """The std of the noise in each of `d` coordinates of the estimate, for z = `noise_multiplier`."""

    def estimate(self, updates: Weighted, d: int, sampling_probability: float, spacing: float) -> Doubles:
        """Returns the estimate (d,) in whole steps of `spacing`; zeros without updates."""


@dataclass(frozen=True, slots=True)
class FixedDenominator:
    """f_f, which divides by q W and is unbiased; `total_weight` is W, the weight of all users."""

    total_weight: float

    def __post_init__(self) -> None:
        positive("total_weight", self.total_weight)

    def noise_std(self, noise_multiplier: float, sampling_probability: float, clip: float, d: int) -> float:
        """z S / (q W)."""
        return noise_multiplier * clip / (sampling_probability * self.total_weight)

    def estimate(self, updates: Weighted, d: int, sampling_probability: float, spacing: float) -> Doubles:
        """Truncates each user's term to the grid: one user moves the sum by at most S / (q W)."""
        scale = 1 / (sampling_probability * self.total_weight * spacing)
        units = np.zeros(d)
        for update, weight in updates:
            units += np.trunc(update.astype(np.float64) * (weight * scale))
        return units


@dataclass(frozen=True, slots=True)
class ClippedDenominator:
    """f_c, which divides by the sample's own weight, at least q W_min; `least_weight` is W_min, at most W."""

    least_weight: float

    def __post_init__(self) -> None:
        positive("least_weight", self.least_weight)

    def noise_std(self, noise_multiplier: float, sampling_probability: float, clip: float, d: int) -> float:
        """2 z S / (q W_min), or more if rounding to the grid takes more than the margin of Lemma 1."""
        if noise_multiplier == 0:
            return 0.0
        m = sampling_probability * self.least_weight
        lemma = 2 * clip / m
        # sqrt(d) steps, twice: more noise may double the grid's step.
        rounding = 2 * math.sqrt(d) * grid(noise_multiplier * lemma, 0.0)
        return noise_multiplier * max(lemma, 2 * clip / (m + 1) + rounding)

    def estimate(self, updates: Weighted, d: int, sampling_probability: float, spacing: float) -> Doubles:
        """Truncates the quotient to the grid."""
        total = np.zeros(d)
        for update, weight in updates:
            total += update.astype(np.float64) * weight
        sampled = math.fsum(weight for _, weight in updates)
        divisor = max(sampling_probability * self.least_weight, sampled)
        units: Doubles = np.trunc(total / (divisor * spacing))
        return units


def weight_of(rows: int, weight_cap: float) -> float:
    """w_k = min(n_k / w_hat, 1) of a user with n_k `rows`; w_hat is `weight_cap`."""
    return min(count("rows", rows) / positive("weight_cap", weight_cap), 1.0)


def total_weight(rows: Sequence[int], weight_cap: float) -> float:
    """W = sum of w_k over all users."""
    return math.fsum(weight_of(own, weight_cap) for own in rows)
