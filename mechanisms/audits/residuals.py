"""Residual tests: do sums with shared noise contain the claimed noise?

An auditor knows the rows, and what some members added (colluders know their own noise). From each decoded sum
it subtracts what these members added and a reference: the sum of the other members' clipped gradients, which
it computes itself in float64. Residuals are left:

    left_t = decoded_t - known_t - reference_t,    (d,) for the steps t = 1 .. T

If the claim is right, left_t is N(0, sigma^2) in each coordinate, independent of all that was before step t.
sigma^2 is the variance of the other members' noise. (Rounding to units g adds at most g^2 / 6 for each member
to the variance. With noise of thousands of units no test can see it.) Three statistics follow, each with an
exact distribution under the claim:

    size     sum of |left_t|^2 / sigma^2                                      chi-squared, T d degrees
    slope    sum of <left_t, toward_t> / (sigma |toward_t|), over sqrt(T)     N(0, 1)
    repeat   sum of <left_t, left_(t-1)> / (sigma |left_(t-1)|), over sqrt(T - 1)  N(0, 1)

Size finds noise that is too small, too large or missing. Slope finds a sum that differs from the reference,
by a wrong scale or a wrong clip. `toward_t` is any direction that is known before step t's noise is drawn,
such as the reference, or the part of it that loud rows make. Repeat finds what two steps share: noise that is
used twice, or an error that does not change.

Proof for slope and repeat: given all that was before step t, toward_t and left_(t-1) are fixed, and left_t is
N(0, sigma^2) in every direction. So each term is N(0, 1) given the terms before it, and the terms are
independent.

The claim is refuted if one of the p-values, all two-sided, is below its share of alpha (Bonferroni). So a
false alarm has a probability of at most alpha. `size_power` and `slope_power` are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mechanisms import arguments

Array = NDArray[np.float64]

SIZE, SLOPE, REPEAT = "size", "slope", "repeat"


@dataclass(frozen=True, slots=True)
class Residuals:
    """The residuals `left` (T, d) of T sums, the directions `toward` (T, d), and sigma as claimed."""

    left: Array
    toward: Array
    noise_std: float

    def __post_init__(self) -> None:
        arguments.positive("noise_std", self.noise_std)
        if self.left.ndim != 2 or not self.left.size or self.left.shape != self.toward.shape:
            raise ValueError(
                f"left, toward of shapes {self.left.shape}, {self.toward.shape} are not allowed: "
                "(steps, coordinates) and the same"
            )
        if not (np.isfinite(self.left).all() and np.isfinite(self.toward).all()):
            raise ValueError("left, toward with NaN or infinity are not allowed: finite numbers")
        if not np.linalg.norm(self.toward, axis=1).all():
            raise ValueError("toward with a zero row is not allowed: a direction for each step")


@dataclass(frozen=True, slots=True)
class Statistic:
    """A statistic's value and its two-sided p-value. The value of `size` is the measured std over sigma."""

    name: str
    value: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Finding:
    """The statistics, and whether the claim survives; a right one is refuted with probability <= `alpha`."""

    statistics: tuple[Statistic, ...]
    alpha: float

    @property
    def refuted_by(self) -> tuple[str, ...]:
        """The names of the statistics that refute the claim."""
        share = self.alpha / len(self.statistics)
        return tuple(each.name for each in self.statistics if each.p_value < share)

    @property
    def is_refuted(self) -> bool:
        """Whether any statistic refutes the claim."""
        return bool(self.refuted_by)

    @property
    def words(self) -> str:
        """The finding in one line."""
        told = ", ".join(f"{each.name} {each.value:.4g} (p {each.p_value:.2g})" for each in self.statistics)
        held = f"refuted by {' and '.join(self.refuted_by)}" if self.is_refuted else "not refuted"
        return f"{told}: the claim is {held} at alpha {self.alpha:g}"


def finding(residuals: Residuals, alpha: float) -> Finding:
    """Tests the claim at level `alpha`, by `size`, `slope` and, with more than one step, `repeat`."""
    arguments.probability("alpha", alpha)
    left = residuals.left
    statistics = [_size_statistic(residuals), _normal_statistic(SLOPE, residuals, left, residuals.toward)]
    if len(left) > 1:
        statistics.append(_normal_statistic(REPEAT, residuals, left[1:], left[:-1]))
    return Finding(tuple(statistics), alpha)


def _size_statistic(residuals: Residuals) -> Statistic:
    squares = float(np.square(residuals.left / residuals.noise_std).sum())
    values = residuals.left.size
    p_value = 2 * min(special.chdtr(values, squares), special.chdtrc(values, squares))
    return Statistic(SIZE, math.sqrt(squares / values), min(1.0, float(p_value)))


def _normal_statistic(name: str, residuals: Residuals, left: Array, toward: Array) -> Statistic:
    """The statistic of `left` (t, d) along the rows of `toward` (t, d); a row of zeros counts as 0."""
    lengths = np.linalg.norm(toward, axis=1)
    along = np.einsum("td,td->t", left, toward)
    terms = np.divide(along, lengths, out=np.zeros_like(along), where=lengths > 0)
    value = float(terms.sum()) / (residuals.noise_std * math.sqrt(len(terms)))
    return Statistic(name, value, 2 * float(special.ndtr(-abs(value))))


def size_power(ratio: float, values: int, alpha: float) -> float:
    """The probability that `size` refutes the claim if the std is `ratio` times sigma.

    `values`: T d. alpha: the share of this statistic.
    """
    arguments.positive("ratio", ratio)
    half = arguments.probability("alpha", alpha) / 2
    degrees = arguments.count("values", values)
    above = special.chdtri(degrees, half)
    below = special.chdtri(degrees, 1 - half)
    scaled = 1 / ratio**2
    return float(special.chdtr(degrees, below * scaled) + special.chdtrc(degrees, above * scaled))


def slope_power(shift: float, alpha: float) -> float:
    """The probability that `slope` refutes the claim if its mean is `shift` and not 0.

    If the sums are 1 + e times their references, shift = e sum |reference_t| / (sigma sqrt(T)).
    """
    edge = float(special.ndtri(1 - arguments.probability("alpha", alpha) / 2))
    return float(special.ndtr(shift - edge) + special.ndtr(-shift - edge))
