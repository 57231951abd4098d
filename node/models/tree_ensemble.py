"""Boosted trees over the cells of a table's columns: what they add to scores.

A tree is a heap: node i has the children 2 i + 1 and 2 i + 2. An inner node asks in which cell of a column a
row is, and has the cells that go left; a leaf adds its value to the score. A model file needs no code of this
package:

    nodes[o, t, i]   node i of tree t for output o: the column + 1, or 0 for a leaf; the leaf's value; then
                     the cells that go left, 16 to a number: cell c is bit c % 16 of number c // 16
"""

from __future__ import annotations

import math

import torch
from torch import nn

CELL_BITS = 16
"""How many cells a float32 of a node holds: whole numbers, far below 2^24."""
_MOST_NUMBERS = 1 << 23
"""32 MiB: the most that all nodes hold, which a base has, too."""


def ensemble_shape(outputs: int, trees: int, depth: int, widest: int) -> tuple[int, int, int, int]:
    """Returns the shape of an ensemble's `nodes`; `widest`: the most cells of a column. Raises ValueError."""
    for name, value, most in (("trees", trees, 10_000), ("depth", depth, 8)):
        if type(value) is not int or not 0 < value <= most:
            raise ValueError(f"{name} must be a whole number from 1 to {most}, not {value}")
    shape = outputs, trees, 2 ** (depth + 1) - 1, 2 + math.ceil(widest / CELL_BITS)
    if math.prod(shape) > _MOST_NUMBERS:
        raise ValueError(
            f"{trees} trees of depth {depth} with {outputs} outputs have {math.prod(shape)} numbers; "
            f"allowed: {_MOST_NUMBERS}; take fewer trees, or a smaller depth"
        )
    return shape


class TreeEnsemble(nn.Module):
    """(n, columns) cells of a row's columns, from 0 in each -> (n, outputs): what all trees add."""

    def __init__(self, outputs: int, trees: int, depth: int, widest: int) -> None:
        super().__init__()
        self.depth = depth
        shape = ensemble_shape(outputs, trees, depth, widest)
        self.nodes = nn.Parameter(torch.zeros(shape), requires_grad=False)  # the same at all peers

    def forward(self, cells: torch.Tensor) -> torch.Tensor:
        """Returns what all trees add to each score."""
        parts = [added(nodes[: grown(nodes)], cells, self.depth).sum(1) for nodes in self.nodes]
        return torch.stack(parts, 1)


def grown(nodes: torch.Tensor) -> int:
    """Returns how many trees (trees, nodes, numbers) there are up to the last one that adds something."""
    there = torch.flatten(nodes[..., 1], 1).any(1).nonzero()
    return int(there[-1]) + 1 if len(there) else 0


def added(nodes: torch.Tensor, cells: torch.Tensor, depth: int) -> torch.Tensor:
    """Returns (n, trees): what each tree (trees, nodes, numbers) adds to rows by `cells` (n, columns)."""
    trees = torch.arange(len(nodes), device=nodes.device)
    return nodes[trees, leaves(nodes, cells, depth), 1]


def leaves(nodes: torch.Tensor, cells: torch.Tensor, depth: int) -> torch.Tensor:
    """Returns the nodes (n, trees) where rows are after `depth` questions."""
    trees, size, numbers = nodes.shape
    first = torch.arange(trees, device=nodes.device) * size  # of each tree, among the nodes of all
    asked, left = nodes[..., 0].long().flatten() - 1, nodes[..., 2:].int().flatten()
    at = first.expand(len(cells), trees)
    for _ in range(depth):
        column = asked.take(at)  # (n, trees)
        cell = cells.gather(1, column.clamp(min=0))
        goes_left = (left.take(at * (numbers - 2) + cell // CELL_BITS) >> (cell % CELL_BITS)) & 1
        at = torch.where(column >= 0, 2 * at + 2 - goes_left - first, at)
    return at - first


def left_cells(node: torch.Tensor, size: int) -> list[bool]:
    """Returns which of the `size` cells of its column go left at a node (numbers,)."""
    masks = node[2:].int().tolist()
    return [bool(masks[cell // CELL_BITS] >> (cell % CELL_BITS) & 1) for cell in range(size)]
