"""Whether sums with shared noise have the noise that is claimed: tests of what is left of them.

An auditor who knows the rows computes each sum of clipped gradients itself, in float64, and takes it off what
was decoded, together with all that those members added whom it knows (colluders know their own noise):

    left_t = decoded_t - known_t - reference_t,    (d,) for the steps t = 1 .. T

If the claim is right, left_t is N(0, sigma^2) in each coordinate, sigma^2 being the variance of the unknown
members' noise, and independent of all that was before step t. (Rounding to units g adds at most g^2 / 6 for
each member to the variance: with noise of thousands of units no test can see it.) Three statistics follow,
each with an exact distribution under that claim:

    size     sum of |left_t|^2 / sigma^2                                      chi-squared, T d degrees
    slope    sum of <left_t, toward_t> / (sigma |toward_t|), over sqrt(T)     N(0, 1)
    repeat   sum of <left_t, left_(t-1)> / (sigma |left_(t-1)|), over sqrt(T - 1)  N(0, 1)

Size finds noise that is too small, too large or missing. Slope finds a sum that is not the reference: a wrong
scale, a wrong clip; `toward_t` is any direction that is known before step t's noise is drawn, such as the
reference or the part of it that loud rows make. Repeat finds what two steps share: noise that is used
twice, an error that does not change. Proof for the last
two: given all that was before, toward_t and left_(t-1) are fixed and left_t is N(0, sigma^2) in every
direction, so each term is N(0, 1) given those before it, and so the terms are independent.

The claim is refuted if one of the p-values, all two-sided, is below its share of alpha (Bonferroni): a false
alarm has probability alpha at most. `size_power` and `slope_power` are exact.
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
    """What is left of T sums, `left` (T, d), the directions `toward` (T, d), and the claimed sigma."""

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
    """A statistic's value and its two-sided p-value. `size` is given as the std found over the claimed."""

    name: str
    value: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a claim survives; a right one is refuted with probability `alpha` at most."""

    statistics: tuple[Statistic, ...]
    alpha: float

    @property
    def refuted_by(self) -> tuple[str, ...]:
        """The names of the statistics that refute the claim."""
        share = self.alpha / len(self.statistics)
        return tuple(each.name for each in self.statistics if each.p_value < share)

    @property
    def refuted(self) -> bool:
        """Whether any of them does."""
        return bool(self.refuted_by)

    @property
    def words(self) -> str:
        """The finding in one line."""
        told = ", ".join(f"{each.name} {each.value:.4g} (p {each.p_value:.2g})" for each in self.statistics)
        held = f"refuted by {' and '.join(self.refuted_by)}" if self.refuted else "not refuted"
        return f"{told}: the claim is {held} at alpha {self.alpha:g}"


def finding(residuals: Residuals, alpha: float) -> Finding:
    """Tests the claim. There is no `repeat` with one step."""
    arguments.probability("alpha", alpha)
    left = residuals.left
    statistics = [_size(residuals), _normal(SLOPE, residuals, left, residuals.toward)]
    if len(left) > 1:
        statistics.append(_normal(REPEAT, residuals, left[1:], left[:-1]))
    return Finding(tuple(statistics), alpha)


def _size(residuals: Residuals) -> Statistic:
    squares = float(np.square(residuals.left / residuals.noise_std).sum())
    values = residuals.left.size
    p_value = 2 * min(special.chdtr(values, squares), special.chdtrc(values, squares))
    return Statistic(SIZE, math.sqrt(squares / values), min(1.0, float(p_value)))


def _normal(name: str, residuals: Residuals, left: Array, toward: Array) -> Statistic:
    """The statistic of `left` (t, d) along the rows of `toward` (t, d); a row of zeros counts as 0."""
    lengths = np.linalg.norm(toward, axis=1)
    along = np.einsum("td,td->t", left, toward)
    terms = np.divide(along, lengths, out=np.zeros_like(along), where=lengths > 0)
    value = float(terms.sum()) / (residuals.noise_std * math.sqrt(len(terms)))
    return Statistic(name, value, 2 * float(special.ndtr(-abs(value))))


def size_power(ratio: float, values: int, alpha: float) -> float:
    """The probability that `size` refutes the claim if the std is `ratio` times the claimed one.

    `values`: T d. alpha: this statistic's share of it.
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

    A sum that is `e` times its reference longer has shift = e sum |reference_t| / (sigma sqrt(T)).
    """
    edge = float(special.ndtri(1 - arguments.probability("alpha", alpha) / 2))
    return float(special.ndtr(shift - edge) + special.ndtr(-shift - edge))
