"""A small U-Net and its loss (Ronneberger, Fischer and Brox, 2015).

Its norm is by groups of channels, which keeps nothing of the rows.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

STEPS_DOWN, GROUPS = 2, 4


class UNet(nn.Module):
    """Two steps down, two up, each level beside its own: (n, channels, h, w) to logits (n, 1, h, w).

    `h` and `w` are multiples of 4.
    """

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        sizes = [width << level for level in range(STEPS_DOWN + 1)]
        self.down = nn.ModuleList(map(_convolutions, [channels, *sizes], sizes))
        self.up = nn.ModuleList(_convolutions(3 * size, size) for size in reversed(sizes[:-1]))
        self.last = nn.Conv2d(width, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns a logit for each pixel."""
        seen = []
        for level, down in enumerate(self.down):
            x = down(functional.max_pool2d(x, 2) if level else x)
            seen.append(x)
        for up, beside in zip(self.up, reversed(seen[:-1]), strict=True):
            x = up(torch.cat([functional.interpolate(x, scale_factor=2), beside], 1))
        logits: torch.Tensor = self.last(x)
        return logits


def _convolutions(channels: int, width: int) -> nn.Module:
    pairs = [
        (nn.Conv2d(size, width, 3, padding=1, bias=False), nn.GroupNorm(GROUPS, width), nn.ReLU())
        for size in (channels, width)
    ]
    return nn.Sequential(*(layer for pair in pairs for layer in pair))


def mask_loss(logits: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """Returns the mean over images of cross-entropy and 1 - Dice, whose counts are probabilities, plus 1."""
    chance = logits.sigmoid()
    hit, both = (chance * masks).sum((1, 2, 3)), (chance + masks).sum((1, 2, 3))
    dice = (2 * hit + 1) / (both + 1)
    return functional.binary_cross_entropy_with_logits(logits, masks) + (1 - dice).mean()
