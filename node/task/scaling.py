"""The scaling of numbers in a proposed task: by the inspected rows, or by a public range."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EVEN = 1 / math.sqrt(3)
"""The standard deviation of a uniform distribution, in halves of its range."""


@dataclass(frozen=True)
class Scale:
    """The scale (value - mean) / std; `low` and `high` are a public range, or None."""

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
        """The middle of the range."""
        return (self.low + self.high) / 2

    @property
    def half(self) -> float:
        """Half the length of the range."""
        return (self.high - self.low) / 2

    def scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns (n,) scaled to -1 .. 1 despite rounding; clips values outside the range, NaN stays."""
        return np.clip((np.clip(values, self.low, self.high) - self.middle) / self.half, -1, 1)

    @property
    def scale(self) -> tuple[float, float]:
        """(mean, standard deviation) of a uniform distribution over the range."""
        return rounded_scale(self.middle, self.half * EVEN)


Scaling = Callable[[NDArray[np.generic]], Scale]
"""Maps values (n, ...), not all equal, to their scale."""


def by_rows(values: NDArray[np.generic]) -> Scale:
    """The mean and spread of these rows, to two digits, which scale a feature as well and reveal less."""
    mean, std = (float(part) for part in (values.mean(dtype=np.float64), values.std(dtype=np.float64)))
    mean, std = rounded_scale(mean, std)
    return Scale(mean, std)


def by_range(values: NDArray[np.generic]) -> Scale:
    """A range that contains the values, its ends rounded outward to one digit of its length."""
    low, high = float(values.min()), float(values.max())
    unit = 10.0 ** math.floor(math.log10(high - low))
    around = Range(_plain(math.floor(low / unit) * unit), _plain(math.ceil(high / unit) * unit))
    mean, std = around.scale
    return Scale(mean, std, around.low, around.high)


def from_zero(mean: float, std: float) -> tuple[float, float]:
    """Returns (mean, standard deviation) of a count: it begins at 0, and its size is the root mean square."""
    return 0.0, float(f"{math.hypot(mean, std):.2g}")


def _plain(value: float) -> float:
    """Returns `value` without its last digits, which are rounding errors."""
    return float(f"{value:.12g}") + 0.0


def rounded_scale(mean: float, std: float) -> tuple[float, float]:
    """Returns both values rounded to two digits of `std`."""
    digits = 1 - math.floor(math.log10(std))
    return round(mean, digits) + 0.0, float(f"{std:.2g}")
