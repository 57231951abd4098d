"""Means over seeds with their 95 % confidence intervals.

A sweep has few seeds, from 3 to 16: intervals are Student's (Student 1908, "The probable error of a mean"),
with the t quantile for n - 1 degrees of freedom: 4.3 standard errors for three seeds, 2.8 for five.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

CONFIDENCE = 0.95
"""The level of every interval, two-sided."""
_LEAST_ERROR = 1e-9
"""The least standard error, so that figures without spread can be compared."""


@dataclass(frozen=True)
class Estimate:
    """A mean over `seeds` seeds (at least 2) with its standard `error`."""

    mean: float
    error: float
    seeds: int

    @property
    def margin(self) -> float:
        """Half the width of the confidence interval."""
        quantile = float(t.ppf((1 + CONFIDENCE) / 2, self.seeds - 1))
        return quantile * max(self.error, _LEAST_ERROR)

    @property
    def low(self) -> float:
        """The lower end of the confidence interval."""
        return self.mean - self.margin

    @property
    def high(self) -> float:
        """The upper end of the confidence interval."""
        return self.mean + self.margin

    @property
    def margins(self) -> float:
        """The mean in margins: above 1 the whole interval is above zero, below -1 it is below."""
        return self.mean / self.margin

    @property
    def above(self) -> bool:
        """Whether the whole interval is above zero."""
        return self.low > 0

    @property
    def below(self) -> bool:
        """Whether the whole interval is below zero."""
        return self.high < 0


def estimate(values: NDArray[np.float64]) -> Estimate:
    """The mean of two or more values (n,) with its standard error s / sqrt(n), with n - 1 in s."""
    return Estimate(float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values))), len(values))
