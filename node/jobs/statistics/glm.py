"""Generalised linear models with canonical links: McCullagh & Nelder 1989, 2.5.

A sum has X'WX, X'(y - mu) and the deviance. With a canonical link these are the Hessian, the negative
gradient and twice the value of the negative log likelihood, up to constants and the dispersion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from node.jobs.exact_arithmetic import Doubles, log
from node.jobs.limbs import Limbs, to_numbers
from node.jobs.statistics.columns import Category, Column, Number, Table
from node.jobs.statistics.newton import FARTHEST, Curve

Family = Literal["binomial", "gaussian", "poisson"]
FAMILIES: tuple[Family, ...] = ("binomial", "gaussian", "poisson")
_FINEST = 2.0**-40
_LEAST_SHARE = 1e-6  # the least mean of a count, and the least of events and of others, to begin with


@dataclass(frozen=True)
class Glm:
    """The likelihood of a response: a category of two levels, the second the event, or a number.

    binomial: 0 or 1; poisson: whole numbers from 0; gaussian: any, here as -1 to 1 of its range.
    """

    family: Family
    response: Column

    intercept = True

    @property
    def _most(self) -> float:
        """The public bound of what it adds up, a row."""
        if self.family == "poisson" and isinstance(self.response, Number):
            return max(1.0, self.response.high)
        return 1.0

    @property
    def unit(self) -> float:
        """See Likelihood."""
        return math.ldexp(_FINEST, math.frexp(self._most)[1])

    def responses(self, table: Table) -> Doubles:
        """See Likelihood."""
        if isinstance(self.response, Category):
            return table[self.response.name][:, None]
        is_scaled = self.family == "gaussian"
        y = self.response.scaled(table) if is_scaled else self.response.values(table)
        return y[:, None]

    def beginning(self, responses: Doubles) -> Doubles:
        """See Likelihood: the sum of y, as a share of its bound."""
        return np.array([responses[:, 0].sum() / self._most])

    def start(self, size: int, rows: float, beginnings: Doubles) -> Doubles:
        """See Likelihood: the model with the intercept alone."""
        point = np.zeros(size)
        mean = beginnings[:1] * self._most / rows
        match self.family:
            case "gaussian":
                point[:1] = mean
            case "poisson":
                point[:1] = log(np.maximum(mean, _LEAST_SHARE))
            case "binomial":
                share = np.minimum(np.maximum(mean, _LEAST_SHARE), 1 - _LEAST_SHARE)
                point[:1] = log(share) - log(1 - share)
        return point

    def size(self, q: int) -> int:
        """See Likelihood: Hessian, gradient, deviance, and rows with a linear predictor far out."""
        return q * (q + 1) // 2 + q + 2

    def sums(self, z: Doubles, responses: Doubles, point: Doubles) -> Doubles:
        """See Likelihood."""
        y, eta = responses[:, 0], z @ point
        far = int((np.abs(eta) > FARTHEST).sum()) if self.family == "binomial" else 0
        if self.family == "gaussian":
            mu, weight, deviance = eta, np.ones(len(y)), (y - eta) ** 2
        elif self.family == "binomial":
            mu = 1 / (1 + np.exp(-np.clip(eta, -700, 700)))
            weight, deviance = mu * (1 - mu), 2 * (np.logaddexp(0, eta) - y * eta)
        else:
            bounded = np.clip(eta, -FARTHEST, FARTHEST)
            mu = weight = np.exp(bounded)
            logarithm = np.log(np.where(y > 0, y, 1.0))
            deviance = 2 * (np.where(y > 0, y * (logarithm - bounded), 0.0) - (y - mu))
        hessian = (z * weight[:, None]).T @ z
        upper = hessian[np.triu_indices(z.shape[1])]
        return np.concatenate([upper, z.T @ (y - mu), [deviance.sum(), far]])

    def curve(self, limbs: Limbs, point: Doubles) -> Curve:
        """See Likelihood."""
        numbers = to_numbers(limbs, self.unit)
        triangle = len(numbers) - len(point) - 2
        return Curve(numbers[-2], -numbers[triangle:-2], numbers[:triangle], numbers[-1])
