"""Boosted trees over the cells of an additive model, whose score they start from.

A tree is a heap: node i has the children 2 i + 1 and 2 i + 2. An inner node asks in which cell of a column a
row is, and has the cells that go left; a leaf adds its value to the score.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from node.models.additive import Additive


class Trees(nn.Module):
    """Scores (n, outputs) of encoded rows (n, features): those of `curves`, and `trees` trees an output.

    `columns`, `cells`, `one_against_rest`: as for `Additive`. `depth`: how many questions a row is asked.
    """

    column: torch.Tensor
    """(outputs, trees, nodes) int64: the column that an inner node asks for; -1: a leaf."""
    left: torch.Tensor
    """(outputs, trees, nodes, widest) bool: which cells of the column go left."""
    value: torch.Tensor
    """(outputs, trees, nodes): what a leaf adds."""

    def __init__(
        self,
        columns: Sequence[Sequence[str | int]],
        outputs: int,
        cells: int = 31,
        trees: int = 100,
        depth: int = 4,
        one_against_rest: bool = False,
    ) -> None:
        super().__init__()
        if not all(type(each) is int and 0 < each <= most for each, most in ((trees, 10_000), (depth, 10))):
            raise ValueError(f"trees must be from 1 to 10000 and depth from 1 to 10, not {trees} and {depth}")
        self.curves = Additive(columns, outputs, cells)
        self._depth, self._one_against_rest = depth, one_against_rest
        shape = outputs, trees, 2 ** (depth + 1) - 1
        widest = max(column.size for column in self.curves.body.columns)
        self.register_buffer("column", torch.full(shape, -1))
        self.register_buffer("left", torch.zeros(*shape, widest, dtype=torch.bool))
        self.register_buffer("value", torch.zeros(shape))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns the scores of `rows`: logits for classes."""
        body = self.curves.body
        starts = torch.tensor([column.start for column in body.columns])
        cells = body.places(rows) - starts
        added = torch.stack([self.added(output, cells) for output in range(len(self.column))], 1)
        scores: torch.Tensor = self.curves(rows) + added
        return nn.functional.logsigmoid(scores) if self._one_against_rest else scores

    def added(self, output: int, cells: torch.Tensor) -> torch.Tensor:
        """Returns what all trees of an output add (n,) for rows by their `cells` (n, columns) of a column."""
        column, left, value = self.column[output], self.left[output], self.value[output]
        return value.gather(1, leaves(column, left, cells, self._depth).T).sum(0)


def leaves(column: torch.Tensor, left: torch.Tensor, cells: torch.Tensor, depth: int) -> torch.Tensor:
    """Returns the nodes (n, trees) where rows end, after `depth` questions.

    `column` (trees, nodes), `left` (trees, nodes, widest), `cells` (n, columns).
    """
    trees = torch.arange(len(column))
    at = torch.zeros(len(cells), len(column), dtype=torch.int64)
    for _ in range(depth):
        asked = column[trees, at]  # (n, trees)
        cell = cells.gather(1, asked.clamp(min=0))
        children = 2 * at + torch.where(left[trees, at, cell], 1, 2)
        at = torch.where(asked >= 0, children, at)
    return at
