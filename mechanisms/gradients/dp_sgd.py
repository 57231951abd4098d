"""Differentially private gradient steps (Abadi et al. 2016, Algorithm 1, with Poisson sampling).

Each row is in a step's batch with probability q, independently of all others. A step clips each row's
gradient over all parameters to L2 norm C, adds noise N(0, (z C)^2) to each coordinate of the sum, and divides
the sum by the expected number of rows in a batch.

Unit of privacy: one record (row). Neighbours: add or remove it; norm: L2 of its gradient over all
parameters. The number of rows of the data set counts as public (q and the divisor follow from it); the number
of rows in a batch does not, and nothing depends on it. Only the gradient is private; the loss is not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from mechanisms.accounting.ledger import SampledGaussian
from mechanisms.arguments import count, positive, share
from mechanisms.gradients.per_example import Loss, split, summed_units
from mechanisms.noise.noise import add_units, grid
from mechanisms.noise.randomness import Words


@dataclass(frozen=True, slots=True)
class GradientRule:
    """C, z and q: `clipping_radius` (L2), noise std over C, and the probability that a batch has a row."""

    clipping_radius: float
    noise_multiplier: float
    sampling_probability: float

    def __post_init__(self) -> None:
        positive("clipping_radius", self.clipping_radius)
        positive("noise_multiplier", self.noise_multiplier)
        share("sampling_probability", self.sampling_probability)

    @property
    def noise_std(self) -> float:
        """z C: the std of the noise in each coordinate of the sum."""
        return self.noise_multiplier * self.clipping_radius


def poisson_rows(rows: int, sampling_probability: float, words: Words) -> NDArray[np.int64]:
    """Draws a batch: ascending row numbers of 0 to `rows` - 1; there may be none.

    Each row is in it with `sampling_probability`, rounded down to a multiple of 2^-64.
    """
    below = math.floor(share("sampling_probability", sampling_probability) * 2.0**64)
    drawn = np.empty(2 * count("rows", rows), dtype=np.uint32)
    words.fill(drawn)
    if below == 0:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(drawn.view(np.uint64) <= np.uint64(below - 1)).astype(np.int64, copy=False)


def private_gradient(
    model: nn.Module,
    parameters: Mapping[str, nn.Parameter],
    loss: Loss,
    x: torch.Tensor,
    y: torch.Tensor,
    rule: GradientRule,
    expected_rows: float,
    words: Words,
) -> float:
    """Sets each parameter's `.grad` to a private gradient on a Poisson batch; returns the mean loss.

    `x` (n, ...) and `y` (n, ...) are the batch, n may be 0; `expected_rows` is q times the number of all
    rows. A call costs one step of `record_events`. No parameter other than `parameters` may ever be trained
    on these rows: a layer trained without noise carries what it learned of one row into the gradients of
    others. Raises NotFinite if training has diverged, ValueError for a layer that mixes rows.
    """
    divisor = positive("expected_rows", expected_rows)
    spacing = grid(rule.noise_std, rule.clipping_radius)
    units, mean_loss = summed_units(model, parameters, loss, x, y, rule.clipping_radius, spacing)
    add_units(units, rule.noise_std, spacing, words)
    units *= spacing / divisor
    for parameter, gradient in zip(parameters.values(), split(units, parameters.values()), strict=True):
        parameter.grad = gradient.to(parameter.device)
    return mean_loss


def record_events(rule: GradientRule, steps: int) -> SampledGaussian:
    """The cost of `steps` calls of `private_gradient`, each on a new batch of `poisson_rows`."""
    return SampledGaussian(rule.noise_multiplier, rule.sampling_probability, count("steps", steps))
