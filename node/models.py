"""The models that come with the package; any other torch module is named by its import path."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn


class MLP(nn.Module):
    """A perceptron with ReLU between its layers: (n, ...) -> (n, sizes[-1]).

    `sizes` are the widths from input to output, at least two; rows are flattened.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        if len(sizes) < 2 or not all(type(size) is int and size > 0 for size in sizes):
            raise ValueError(f"sizes must be two or more whole numbers above 0, not {sizes}")
        steps = [step for widths in pairwise(sizes) for step in (nn.Linear(*widths), nn.ReLU())]
        self.layers = nn.Sequential(*steps[:-1])  # no ReLU after the last

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Outputs (n, sizes[-1]), logits for classes, of `rows` (n, ...)."""
        outputs: torch.Tensor = self.layers(rows.flatten(1))
        return outputs


class Linear(MLP):
    """One linear layer: logistic regression with classes, least squares with numbers."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__([inputs, outputs])
