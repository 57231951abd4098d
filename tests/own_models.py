"""Models as a user may write them, for tests to name by import path."""

from __future__ import annotations

import torch
from torch import nn


class Normed(nn.Module):
    """Batch normalisation takes statistics of all rows together: no row has a gradient of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 10))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layers(rows.flatten(1))
