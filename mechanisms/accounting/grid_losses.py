"""Distributions of privacy losses on a grid: their composition, and the (epsilon, delta) that they give.

Losses of independent releases add, so a composition convolves their distributions, by the FFT (Koskela, Jalko
& Honkela 2020). A self-composition keeps a range of losses that has all but `tail` of the mass, by Chernoff's
bound: for t > 0, P(sum >= s) <= E[e^(t loss)]^n e^(-t s), and likewise below. The mass outside is cut off or
wraps around into the range, at any of its points, and `tail` counts as an infinite loss. So the result's

    delta(epsilon) = infinite + sum_(loss > epsilon) (1 - e^(epsilon - loss)) mass

is never below the exact one: mass from outside gives up at most what the infinite loss adds. What remains is
the FFT's own rounding, about 1e-16 of the whole mass (hence `ledger.PLD_DELTA`). dp-accounting is another
program for the same, against which the tests hold this one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_ORDERS = 20
"""Chernoff's bound is taken at plus and minus t = 1 / n, ... _ORDERS / n for n grid points, in grid steps."""


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

    def repeated(self, times: int, tail: float) -> GridLosses:
        """Returns the loss of `times` such releases, 1 or more; at most `tail` of its mass was cut off."""
        low, high = self._range(times, tail)
        size = high - low + 1
        length = _transform_length(max(size, len(self.masses)))
        whole = np.fft.irfft(np.fft.rfft(self.masses, length) ** times, length)
        masses = np.roll(whole, -low)[:size]
        infinite = tail - math.expm1(times * math.log1p(-self.infinite))
        return GridLosses(self.interval, self.first * times + low, masses, infinite)

    def _range(self, times: int, tail: float) -> tuple[int, int]:
        """Returns the first and last place, from `times` first losses on, of all but `tail` of the mass."""
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
        """Returns the loss of both releases, on the same grid; at most `tail` of its mass was cut off.

        Mass cut off below moves to the least loss that is kept, mass cut off above to the infinite one.
        """
        size = len(self.masses) + len(other.masses) - 1
        length = _transform_length(size)
        both = np.fft.rfft(self.masses, length) * np.fft.rfft(other.masses, length)
        masses = np.fft.irfft(both, length)[:size]
        low = min(_fits(masses, tail / 2), size - 1)
        high = max(size - _fits(masses[::-1], tail / 2), low + 1)
        kept = masses[low:high].copy()
        kept[0] += masses[:low].sum()
        infinite = self.infinite + other.infinite - self.infinite * other.infinite
        first = self.first + other.first + low
        return GridLosses(self.interval, first, kept, infinite + float(masses[high:].sum()))

    def delta(self, epsilon: float) -> float:
        """Returns the least delta for this epsilon: the module's formula."""
        losses = self._losses
        higher = losses > epsilon
        return self.infinite + float(-np.expm1(epsilon - losses[higher]) @ self.masses[higher])

    def epsilon(self, delta: float) -> float:
        """Returns the least epsilon, at least 0, for this delta; infinite if the infinite loss exceeds delta.

        Between two grid points delta(epsilon) = P - e^epsilon Q, with P and Q the masses of the losses above
        under the two inputs. From the highest loss down, epsilon lies in the first interval that contains
        ln((P - delta) / Q).
        """
        if self.infinite > delta:
            return math.inf
        losses, masses = self._losses[::-1], self.masses[::-1]
        p = np.concatenate([[self.infinite], self.infinite + np.cumsum(masses)])
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            q = np.concatenate([[0.0], np.cumsum(np.exp(-losses) * masses)])
            solved = np.log((p - delta) / q)
        inside = (p > delta) & (q > 0) & (solved >= np.append(losses, -math.inf))
        beyond_floats = (p[1:] >= delta) & (q[1:] == 0)  # no float is e^-loss: epsilon is about the loss
        if beyond_floats.any() and not inside[: np.argmax(beyond_floats) + 1].any():
            return max(0.0, float(losses[np.argmax(beyond_floats)]))
        return max(0.0, float(solved[np.argmax(inside)])) if inside.any() else 0.0


def _fits(masses: Array, most: float) -> int:
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
