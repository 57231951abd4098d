"""A sum of clipped gradients in whole units, with noise: a private step, or one member's share of it.

Sum and noise lie on a grid of step g = `unit` (`mechanisms.noise.noise` says why). Rounding to the grid moves
two neighbouring sums apart by at most g in each coordinate, and so by at most sqrt(d) g in L2. So rows are
clipped to C - sqrt(d) g.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms.arguments import count
from mechanisms.gradients.clipped_sum import Batch, ClippedSum
from mechanisms.gradients.objective import Objective
from mechanisms.noise.noise import add_units
from mechanisms.noise.randomness import Words

EXACT = 2.0**52
"""Whole numbers up to here, and their sums with the noise, are exact in float64."""


class NoisySum:
    """Computes clipped sums of batches, rounds them to whole units, and adds noise."""

    def __init__(
        self,
        objective: Objective,
        radius: float,
        unit: float,
        noise_std: float,
        most_rows: int,
        expected_rows: float,
        rows_per_person: int | None = None,
    ) -> None:
        """`radius` (C), `unit` (g) and `noise_std` are in units of the gradient. See ClippedSum for the rest.

        Raises ValueError, too, if sums of so many rows are not exact.
        """
        if count("most_rows", most_rows) * radius > EXACT * unit:
            raise ValueError(f"most_rows = {most_rows} is not allowed: sums of so many rows are not exact")
        self.unit, self._noise_std = unit, noise_std
        clip = radius - math.sqrt(sum(objective.sizes)) * unit
        self.clipped = ClippedSum(objective, clip, most_rows, expected_rows, rows_per_person)

    def __call__(
        self, x: torch.Tensor, y: torch.Tensor, words: Words, persons: torch.Tensor | None = None
    ) -> tuple[NDArray[np.float64], Batch]:
        """Returns whole units (d,) for the batch x (n, ...), y (n, ...), and what stays with its owner.

        n may be 0. For `persons` (n,) and what it raises see ClippedSum.
        """
        total = self.clipped(x, y, persons)
        units = np.rint(total.vector / self.unit)
        add_units(units, self._noise_std, self.unit, words)
        return units, total.stays
