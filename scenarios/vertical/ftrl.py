"""FTRL-Proximal, which torch does not have: McMahan et al. 2013, "Ad Click Prediction", Algorithm 1.

    sigma = (sqrt(n + g^2) - sqrt(n)) / rate;   z += g - sigma w;   n += g^2
    w = 0 where |z| <= l1, else -(z - sign(z) l1) / (sqrt(n) / rate + l2)

with beta = 0, and n starting at `accumulator` instead of 0. Weights start at 0, as z does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class FtrlSettings:
    """The algorithm's constants: alpha, lambda_1, lambda_2, and what n starts at."""

    learning_rate: float
    l1: float
    l2: float
    accumulator: float


class Ftrl:
    """The state of some parameters: z and n of each coordinate."""

    def __init__(self, parameters: Sequence[Tensor], settings: FtrlSettings) -> None:
        self._settings = settings
        self._parameters = tuple(parameters)
        self._sums = [torch.zeros_like(one) for one in self._parameters]
        self._squares = [torch.full_like(one, settings.accumulator) for one in self._parameters]

    @torch.no_grad()
    def step(self) -> None:
        """Move each parameter by the gradient that it has; one without a gradient stays as it is."""
        for weights, z, n in zip(self._parameters, self._sums, self._squares, strict=True):
            if weights.grad is not None:
                self._move(weights, weights.grad, z, n)

    def _move(self, weights: Tensor, gradient: Tensor, z: Tensor, n: Tensor) -> None:
        own = self._settings
        before = n.sqrt()
        n += gradient * gradient
        z += gradient - (n.sqrt() - before) / own.learning_rate * weights
        moved = -(z - z.sign() * own.l1) / (n.sqrt() / own.learning_rate + own.l2)
        weights.copy_(torch.where(z.abs() <= own.l1, 0.0, moved))
