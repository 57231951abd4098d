"""Canaries: rows with long gradients, each of which moves a parameter of its own."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from mechanisms.gradients.dp_sgd import poisson_rows
from mechanisms.gradients.objective import Objective
from mechanisms.noise.randomness import Words

Present = NDArray[np.int64]
"""The numbers (m,) of canaries."""


def steep_loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return a loss whose gradient for a canary is 100 in its own parameter, wherever the parameters are."""
    return 100 * (outputs * targets).mean()


class Canaries:
    """A linear model with a parameter for each of `number` canaries, whose rows are the unit vectors."""

    def __init__(self, number: int) -> None:
        self.model = nn.Linear(number, 1, bias=False)
        self.rows = torch.eye(number)
        parameters = dict(self.model.named_parameters())
        self.objective = Objective(self.model, parameters, steep_loss, (self.rows[:1], torch.ones(1, 1)))

    def batch(self, chosen: Present) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rows and targets of the canaries with these numbers."""
        return self.rows[torch.from_numpy(chosen)], torch.ones(len(chosen), 1)


def poisson_sample(present: Present, probability: float, words: Words) -> Present:
    """Return a Poisson sample of the canaries that are present."""
    return present[poisson_rows(len(present), probability, words)] if len(present) else present
