"""Coefficients and curves, in the columns' own units, from what secure sums have made."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from scipy import special

from node.jobs.exact_arithmetic import Doubles, factorise, symmetric
from node.jobs.statistics.columns import Number
from node.jobs.statistics.glm import Glm
from node.jobs.statistics.models import ModelPart
from node.jobs.statistics.newton import Newton

Counts = NDArray[np.int64]

Z95 = 1.959963984540054
INTERCEPT = "(Intercept)"


@dataclass(frozen=True)
class Estimate:
    """A coefficient, its standard error, its 95 % interval, and the two-sided p-value of Wald's test."""

    label: str
    value: float
    error: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Fit:
    """A model that has settled. `value` and `null`: deviances; of Cox, negative log partial likelihoods."""

    estimates: tuple[Estimate, ...]
    value: float
    null: float


def fit(part: ModelPart, newton: Newton) -> Fit:
    """Returns the fit of a model that has settled."""
    likelihood, size = part.likelihood, part.size
    middle, half = part.matrix.ranges
    means, deviations = newton.scales
    factors = factorise(symmetric(newton.hessian, size), 0.0)
    if factors is None:
        raise ValueError("a model that has settled has a Hessian with positive pivots")
    covariance = np.stack([factors.solve(unit) for unit in np.eye(size)])
    slopes = 1 / (deviations * half)
    back = np.diag(np.concatenate([[1.0], slopes])) if likelihood.intercept else np.diag(slopes)
    labels = [column.label for column in part.columns]
    freedom, scale, shift = math.inf, 1.0, 0.0
    if likelihood.intercept:
        back[0, 1:] = -slopes * (middle + half * means)
        labels.insert(0, INTERCEPT)
    value, null = newton.value, newton.first
    if (
        isinstance(likelihood, Glm)
        and likelihood.family == "gaussian"
        and isinstance(likelihood.response, Number)
    ):
        freedom = newton.rows - size
        extent = likelihood.response.extent
        scale, shift = extent.half, extent.middle
        covariance = covariance * (value / freedom)
        value, null = value * scale**2, null * scale**2
    points = scale * (back @ newton.point)
    points[:1] += shift
    errors = scale * np.sqrt(np.diag(back @ covariance @ back.T))
    reach = Z95 if math.isinf(freedom) else float(special.stdtrit(freedom, 0.975))
    estimates = tuple(
        Estimate(
            label, point, error, point - reach * error, point + reach * error, _wald(point / error, freedom)
        )
        for label, point, error in zip(labels, points.tolist(), errors.tolist(), strict=True)
    )
    return Fit(estimates, value, null)


def _wald(ratio: float, freedom: float) -> float:
    tail = special.ndtr(-abs(ratio)) if math.isinf(freedom) else special.stdtr(freedom, -abs(ratio))
    return float(2 * tail)


@dataclass(frozen=True)
class SurvivalCurve:
    """Kaplan-Meier: at each time (k,) survival with its 95 % interval, who was at risk, and events."""

    times: Doubles
    survival: Doubles
    low: Doubles
    high: Doubles
    at_risk: Counts
    events: Counts

    def until(self, end: int) -> SurvivalCurve:
        """Returns its first `end` places."""
        return SurvivalCurve(*(getattr(self, field.name)[:end] for field in fields(self)))

    @property
    def median(self) -> float | None:
        """The first time at which survival is at most one half; None if it never is."""
        below = np.flatnonzero(self.survival <= 0.5)
        return float(self.times[below[0]]) if len(below) else None


def kaplan_meier(events: Counts, leaving: Counts, grid: float) -> SurvivalCurve:
    """Returns the curve of events and leaving rows (K,): Greenwood's variance, intervals of log(-log S)."""
    at_risk = leaving[::-1].cumsum()[::-1]
    safe = np.maximum(at_risk, 1)
    survival: Doubles = np.cumprod(1 - events / safe)
    rest = np.maximum(at_risk - events, 1)
    greenwood = np.cumsum(np.where(at_risk > events, events / (safe * rest), 0.0))
    inside = (survival > 0) & (survival < 1)
    logarithm = np.log(np.where(inside, survival, 0.5))
    reach = Z95 * np.sqrt(greenwood) / -logarithm
    low, high = (np.where(inside, np.exp(logarithm * np.exp(sign * reach)), survival) for sign in (1, -1))
    return SurvivalCurve(
        np.arange(len(events), dtype=np.float64) * grid, survival, low, high, at_risk, events
    )
