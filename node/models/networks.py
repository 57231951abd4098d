"""Small networks that are trained from the first layer on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn


class MLP(nn.Module):
    """A multilayer perceptron with ReLU between its layers: (n, ...) -> (n, sizes[-1]).

    `sizes` are the widths from input to output, at least two; rows are flattened.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        if len(sizes) < 2 or not all(type(size) is int and size > 0 for size in sizes):
            raise ValueError(f"sizes must be two or more whole numbers above 0, not {sizes}")
        steps = [step for widths in pairwise(sizes) for step in (nn.Linear(*widths), nn.ReLU())]
        self.layers = nn.Sequential(*steps[:-1])  # no ReLU after the last

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns outputs (n, sizes[-1]), logits for classes, of `rows` (n, ...)."""
        outputs: torch.Tensor = self.layers(rows.flatten(1))
        return outputs


class ConvNet(nn.Module):
    """A small network for images: two 3 x 3 convolutions, each with ReLU and 2 x 2 max pooling, then a layer.

    `shape` is (channels, height, width), with height and width at least 4; `channels` are the output channels
    of the convolutions. No layer mixes rows, so the network also works with record-level privacy.
    """

    def __init__(self, shape: Sequence[int], outputs: int, channels: Sequence[int] = (16, 32)) -> None:
        super().__init__()
        if len(shape) != 3 or not all(type(size) is int and size > 0 for size in shape) or min(shape[1:]) < 4:
            raise ValueError(f"shape must be [channels, height, width], the last two 4 or more, not {shape}")
        if len(channels) != 2 or min(channels) < 1:
            raise ValueError(f"channels must be two whole numbers above 0, not {channels}")
        first, second = channels
        self.layers = nn.Sequential(
            *(nn.Conv2d(shape[0], first, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(first, second, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(second * (shape[1] // 4) * (shape[2] // 4), outputs)),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Returns outputs (n, outputs), logits for classes, of `images` (n, channels, height, width)."""
        outputs: torch.Tensor = self.layers(images)
        return outputs


class Linear(MLP):
    """One linear layer: logistic regression for classes, least squares for numbers."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__([inputs, outputs])
