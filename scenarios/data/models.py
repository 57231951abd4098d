"""Models that only scenarios use: a small CNN for images, and logistic regression with one logit."""

from __future__ import annotations

import torch
from torch import nn

_KERNEL, _STRIDE = 5, 2


class SmallCNN(nn.Module):
    """A convolution with ReLU and a linear layer: (n, 1, side, side) -> (n, outputs).

    The kernel is 5 x 5, with a stride of 2 and no padding. There is no batch norm, which mixes rows, and no
    dropout, which draws from a global generator.

    The convolution is a linear layer over patches. Clients in a block can then be trained by stacked products
    (scenarios.clients.gradients), in two thirds of the time that a mapped `nn.Conv2d` needs: 53 and 78 ms
    for 24 clients of 40 rows in batches of 10. Of two successive convolutions the mapped ones are faster, 58
    and 109 ms, as the backward pass must sum patches up to images again.
    """

    def __init__(self, outputs: int, channels: int = 16, side: int = 28) -> None:
        super().__init__()
        if side < _KERNEL:
            raise ValueError(f"side = {side} is not allowed: at least {_KERNEL} pixels")
        places = ((side - _KERNEL) // _STRIDE + 1) ** 2
        self.convolution = nn.Linear(_KERNEL**2, channels)
        self.last = nn.Linear(places * channels, outputs)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits (n, outputs) of `images` (n, 1, side, side)."""
        patches = images.unfold(2, _KERNEL, _STRIDE).unfold(3, _KERNEL, _STRIDE)  # (n, 1, h, w, 5, 5)
        maps = torch.relu(self.convolution(patches.flatten(4).flatten(1, 3)))  # (n, h * w, channels)
        logits: torch.Tensor = self.last(maps.flatten(1))
        return logits


class Logistic(nn.Module):
    """Logistic regression with one weight vector: (n, features) -> logits (n, 2), of which the first is 0.

    Softmax cross-entropy on these logits is the logistic loss of theta^T x + b, and G(theta) = ||theta||_2
    bounds its slope in a row. With two weight vectors the norm of their difference would bound it.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.line = nn.Linear(features, 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Logits (n, 2) of `rows` (n, features)."""
        score: torch.Tensor = self.line(rows)
        return torch.cat([torch.zeros_like(score), score], dim=1)
