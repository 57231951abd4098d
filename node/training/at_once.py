"""How many rows a model takes at once where it is only asked for its outputs: few, if rows are large.

A layer's outputs for a row may be ten times as large as the row: 4,096 images of 224 x 224 pixels would take
13 GB behind the first layer of a ResNet, and 27 take 90 MB.
"""

from __future__ import annotations

import torch

_BYTES, _LEAST = 1 << 24, 3


def parts(rows: torch.Tensor, most: int) -> tuple[torch.Tensor, ...]:
    """Returns the rows (n, ...) in parts of nearly equal size, of at most `most` rows each.

    A part has at most 16 MiB, or three rows. So where `most` is more than two, no row is alone, but a single
    one.
    """
    size = rows[:1].numel() * rows.element_size()
    some = min(most, max(_LEAST, _BYTES // max(1, size)))
    return torch.tensor_split(rows, max(1, -(-len(rows) // some)))
