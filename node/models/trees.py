"""Boosted trees over the cells of a table's columns, from a score that all rows share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from node.models.additive import Cells
from node.models.tree_ensemble import TreeEnsemble


class Trees(nn.Module):
    """Scores (n, outputs) of encoded rows (n, features): `base`, and what `trees` trees an output add.

    `columns`, `cells`, `one_against_rest`: as for `Additive`. `depth`: how many questions a row is asked.
    `rate`: which part of its step a tree takes, which those know who grow it.
    """

    def __init__(
        self,
        columns: Sequence[Sequence[str | int]],
        outputs: int,
        cells: int = 63,
        one_against_rest: bool = False,
        trees: int = 100,
        depth: int = 4,
        rate: float = 0.1,
    ) -> None:
        super().__init__()
        if type(outputs) is not int or outputs < 1:
            raise ValueError(f"outputs must be a whole number above 0, not {outputs}")
        if type(rate) not in (int, float) or not 0 < rate <= 1:
            raise ValueError(f"rate must be a number above 0 and at most 1, not {rate}")
        self.body = Cells(columns, cells)
        self.base = nn.Parameter(torch.zeros(outputs))
        self.trees = TreeEnsemble(outputs, trees, depth, self.body.widest)
        self._one_against_rest = one_against_rest

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns the scores of `rows`: logits for classes."""
        scores: torch.Tensor = self.base + self.trees(self.body.cells(rows))
        return nn.functional.logsigmoid(scores) if self._one_against_rest else scores
