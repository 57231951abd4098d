"""Differentially private gradient steps (Abadi et al. 2016, Algorithm 1, with Poisson sampling).

Each row is in a step's batch with probability q, independently of all others. A step clips each row's
gradient over all parameters to L2 norm C, adds noise N(0, (z C)^2) to each coordinate of the sum, and divides
the sum by the expected number of rows in a batch.

Unit of privacy: one record (row). Neighbours: add or remove it; norm: L2 of its gradient over all
parameters. Where batches have persons (`clipped_sum`), read "person" for "row": a person is in a batch with
probability q, with all of the person's rows. The number of rows of the data set counts as public: q and the
divisor follow from it. The number of rows in a batch does not, and nothing depends on it. Only the gradient
is private; the loss is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms.accounting.ledger import SampledGaussian
from mechanisms.arguments import count, positive, share
from mechanisms.gradients.clipped_sum import Batch
from mechanisms.gradients.noisy_sum import EXACT, NoisySum
from mechanisms.gradients.objective import Objective
from mechanisms.noise.noise import COARSEST, REACH, power_of_two
from mechanisms.noise.randomness import Words, uniform64


@dataclass(frozen=True, slots=True)
class GradientRule:
    """C, z and q: `clipping_radius` (L2), noise std over C, and the probability that a row is in a batch."""

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
    """Draws a batch: (k,) ascending row numbers among 0 to `rows` - 1; k may be 0.

    Each row is in it with `sampling_probability`, rounded down to a multiple of 2^-64.
    """
    below = math.floor(share("sampling_probability", sampling_probability) * 2.0**64)
    drawn = uniform64(count("rows", rows), words)
    if below == 0:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(drawn <= np.uint64(below - 1)).astype(np.int64, copy=False)


class PrivateGradient:
    """Private gradients of one model by one rule; each costs one step of `record_events`.

    Nobody may ever train other parameters than those of the objective on these rows: a layer that is trained
    without noise carries what it learned of one row into the gradients of others.
    """

    def __init__(
        self,
        objective: Objective,
        rule: GradientRule,
        most_rows: int,
        expected_rows: float,
        rows_per_person: int | None = None,
    ) -> None:
        """`most_rows`: of the data set; `expected_rows`: q times that, the divisor. See ClippedSum.

        Raises ValueError, too, if the grid is coarser than the gradients.
        """
        self._parameters = objective.parameters
        self._divisor = positive("expected_rows", expected_rows)
        size, unit = sum(objective.sizes), _grid(rule, count("most_rows", most_rows))
        if math.sqrt(size) * unit >= rule.clipping_radius:
            raise ValueError(
                f"noise_multiplier = {rule.noise_multiplier:g} is not allowed for {size} parameters: with it "
                f"the grid is coarser than the gradients"
            )
        self._sum = NoisySum(
            objective=objective,
            radius=rule.clipping_radius,
            unit=unit,
            noise_std=rule.noise_std,
            most_rows=most_rows,
            expected_rows=expected_rows,
            rows_per_person=rows_per_person,
        )

    @property
    def method(self) -> str:
        """How gradients of single rows are computed: BOOK_KEEPING, or a slower way and why."""
        return self._sum.clipped.method

    def __call__(
        self, x: torch.Tensor, y: torch.Tensor, words: Words, persons: torch.Tensor | None = None
    ) -> Batch:
        """Sets each parameter's `.grad` to a private gradient on the Poisson batch x (n, ...), y (n, ...).

        n may be 0. For `persons` (n,) and what it raises see ClippedSum.
        """
        units, batch = self._sum(x, y, words, persons)
        units *= self._sum.unit / self._divisor
        whole = torch.from_numpy(units.astype(np.float32))
        parts = torch.split(whole, [parameter.numel() for parameter in self._parameters.values()])
        for parameter, gradient in zip(self._parameters.values(), parts, strict=True):
            parameter.grad = gradient.view(parameter.shape).to(parameter.device)
        return batch


def _grid(rule: GradientRule, most_rows: int) -> float:
    """g: the least power of two at which the sampler and whole numbers in float64 are exact."""
    most = most_rows * rule.clipping_radius + REACH * rule.noise_std
    return power_of_two(max(rule.noise_std / COARSEST, most / EXACT))


def record_events(rule: GradientRule, steps: int) -> SampledGaussian:
    """The cost of `steps` calls of a `PrivateGradient`, each on a new batch of `poisson_rows`."""
    return SampledGaussian(rule.noise_multiplier, rule.sampling_probability, count("steps", steps))
