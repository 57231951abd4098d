"""How numbers are scaled in a proposed task: by the rows that were looked at, or by a public range."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EVEN = 1 / math.sqrt(3)
"""The standard deviation of values that are spread evenly, in halves of their range."""


@dataclass(frozen=True)
class Scale:
    """What becomes (value - mean) / std; `low` and `high` are a public range, or None."""

    mean: float
    std: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Range:
    """A public range of values."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Between both."""
        return (self.low + self.high) / 2

    @property
    def half(self) -> float:
        """From the middle to an end."""
        return (self.high - self.low) / 2

    def scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,) from -1 to 1, rounding or not; what lies outside is cut, NaN stays."""
        return np.clip((np.clip(values, self.low, self.high) - self.middle) / self.half, -1, 1)

    @property
    def scale(self) -> tuple[float, float]:
        """(mean, standard deviation) of values that are spread evenly over it."""
        return rounded_scale(self.middle, self.half * EVEN)


Scaling = Callable[[NDArray[np.generic]], Scale]
"""From values (n, ...), not all of them the same, to their scale."""


def by_rows(values: NDArray[np.generic]) -> Scale:
    """Mean and spread of these very rows, to two digits: they scale a feature as well, and tell less."""
    mean, std = (float(part) for part in (values.mean(dtype=np.float64), values.std(dtype=np.float64)))
    mean, std = rounded_scale(mean, std)
    return Scale(mean, std)


def by_range(values: NDArray[np.generic]) -> Scale:
    """A range that holds them, whose ends are rounded outward to one digit of its length."""
    low, high = float(values.min()), float(values.max())
    unit = 10.0 ** math.floor(math.log10(high - low))
    around = Range(_plain(math.floor(low / unit) * unit), _plain(math.ceil(high / unit) * unit))
    mean, std = around.scale
    return Scale(mean, std, around.low, around.high)


def _plain(value: float) -> float:
    """Without the last digits, which are rounding."""
    return float(f"{value:.12g}") + 0.0


def rounded_scale(mean: float, std: float) -> tuple[float, float]:
    """Both rounded to two digits of `std`."""
    digits = 1 - math.floor(math.log10(std))
    return round(mean, digits) + 0.0, float(f"{std:.2g}")
