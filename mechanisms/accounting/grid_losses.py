"""Distributions of privacy losses on a grid: their composition, and the (epsilon, delta) that they give.

Losses of independent releases add, so a composition convolves their distributions, by the FFT (Koskela, Jalko
& Honkela 2020). A self-composition keeps a range of losses that holds all but `tail` of the mass. Chernoff's
bound gives the range: for t > 0, P(sum >= s) <= E[e^(t loss)]^n e^(-t s), and likewise below. The mass
outside the range is cut off, or the FFT wraps it around to some point in the range. `tail`, which is at least
as much, is added to the mass of the infinite loss. So

    delta(epsilon) = infinite + sum_(loss > epsilon) (1 - e^(epsilon - loss)) mass

is never below the exact delta, but for the FFT's rounding: about 1e-16 of the whole mass (hence
`ledger.PLD_DELTA`). The tests compare the results with those of dp-accounting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_ORDERS = 20
"""Chernoff's bound is taken at t = 1 / n, 2 / n ... _ORDERS / n per grid step, for n grid points."""


@dataclass(frozen=True, slots=True)
class GridLosses:
    """Losses `interval` * (`first` + 0, 1, ...) of `masses` (n,), and an infinite loss of mass `infinite`."""

    interval: float
    first: int
    masses: Array
    infinite: float

    @property
    def _losses(self) -> Array:
        return np.arange(self.first, self.first + len(self.masses), dtype=np.float64) * self.interval

    def self_composition(self, times: int, tail: float) -> GridLosses:
        """Returns the loss of `times` such releases, 1 or more; cuts off at most `tail` of its mass."""
        low, high = self._kept_range(times, tail)
        size = high - low + 1
        length = _transform_length(max(size, len(self.masses)))
        whole = np.fft.irfft(np.fft.rfft(self.masses, length) ** times, length)
        masses = np.roll(whole, -low)[:size]
        infinite = tail - math.expm1(times * math.log1p(-self.infinite))
        return GridLosses(self.interval, self.first * times + low, masses, infinite)

    def _kept_range(self, times: int, tail: float) -> tuple[int, int]:
        """Returns the first and last grid point that hold all but `tail` of the mass of `times` losses.

        They count from the least possible sum, `times` times `first`.
        """
        count, each = len(self.masses), math.log(2 / tail)
        rise = np.exp(np.arange(count) / count)
        up, down = self.masses.copy(), self.masses.copy()
        low, high = 0, (count - 1) * times
        for order in range(1, _ORDERS + 1):
            up *= rise
            down /= rise
            above, below = ((times * math.log(part.sum()) + each) * count / order for part in (up, down))
            low, high = max(low, math.floor(-below)), min(high, math.ceil(above))
        return low, high

    def plus(self, other: GridLosses, tail: float) -> GridLosses:
        """Returns the loss of both releases, on the same grid; moves at most `tail` of its mass.

        The lowest mass moves up to the least loss that is kept, the highest to the infinite loss.
        """
        size = len(self.masses) + len(other.masses) - 1
        length = _transform_length(size)
        both = np.fft.rfft(self.masses, length) * np.fft.rfft(other.masses, length)
        masses = np.fft.irfft(both, length)[:size]
        low = min(_count_within(masses, tail / 2), size - 1)
        high = max(size - _count_within(masses[::-1], tail / 2), low + 1)
        kept = masses[low:high].copy()
        kept[0] += masses[:low].sum()
        infinite = self.infinite + other.infinite - self.infinite * other.infinite
        first = self.first + other.first + low
        return GridLosses(self.interval, first, kept, infinite + float(masses[high:].sum()))

    def delta(self, epsilon: float) -> float:
        """Returns the least delta for this epsilon, by the module's formula."""
        losses = self._losses
        higher = losses > epsilon
        return self.infinite + float(-np.expm1(epsilon - losses[higher]) @ self.masses[higher])

    def epsilon(self, delta: float) -> float:
        """Returns the least epsilon, at least 0, for this delta; infinite if `infinite` exceeds delta.

        Between two grid points delta(epsilon) = P - e^epsilon Q. P and Q are the masses of all higher losses
        under the two inputs. So epsilon is the first ln((P - delta) / Q), from the highest loss down, that
        lies in its own interval.
        """
        if self.infinite > delta:
            return math.inf
        losses, masses = self._losses[::-1], self.masses[::-1]
        p = np.concatenate([[self.infinite], self.infinite + np.cumsum(masses)])
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            q = np.concatenate([[0.0], np.cumsum(np.exp(-losses) * masses)])
            solved = np.log((p - delta) / q)
        inside = (p > delta) & (q > 0) & (solved >= np.append(losses, -math.inf))
        beyond_floats = (p[1:] >= delta) & (q[1:] == 0)  # e^-loss underflows: epsilon is about the loss
        if beyond_floats.any() and not inside[: np.argmax(beyond_floats) + 1].any():
            return max(0.0, float(losses[np.argmax(beyond_floats)]))
        return max(0.0, float(solved[np.argmax(inside)])) if inside.any() else 0.0


def _count_within(masses: Array, most: float) -> int:
    """Returns how many of the first masses add up to at most `most`."""
    beyond = np.cumsum(masses) > most
    return int(np.argmax(beyond)) if beyond.any() else len(masses)


def _transform_length(least: int) -> int:
    """Returns the least length from `least` on for which the FFT is fast: with no prime factor above 11."""
    length = least
    while _without_small_factors(length) > 1:
        length += 1
    return length


def _without_small_factors(number: int) -> int:
    for factor in (2, 3, 5, 7, 11):
        while number % factor == 0:
            number //= factor
    return number
