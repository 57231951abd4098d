"""A site's sums for a Newton step of the curves: X'WX, X'(y - mu) and the deviance, of its own rows.

X has a row's indicators of its cells, so that X'WX is made of weighted counts of pairs of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from node.jobs.exact_arithmetic import Doubles

_FARTHEST = 30.0
"""A logit beyond which a row's share of X'WX and of the slope is nothing, in doubles."""


@dataclass(frozen=True)
class CodedRows:
    """Rows by their cells: `codes` (n,) of each column, below its `sizes`, which itself is no cell.

    `blocks`: the coefficients of each column. The base score has the last of `size` coefficients.
    """

    codes: Sequence[NDArray[np.int64]]
    blocks: Sequence[slice]
    size: int

    def scores(self, coefficients: Doubles) -> Doubles:
        """Returns the scores (n,)."""
        found = np.full(len(self.codes[0]), coefficients[-1])
        for codes, block in zip(self.codes, self.blocks, strict=True):
            found += np.append(coefficients[block], 0.0)[codes]
        return found

    def slope(self, residuals: Doubles) -> Doubles:
        """Returns X' r (p,)."""
        found = np.zeros(self.size)
        for codes, block in zip(self.codes, self.blocks, strict=True):
            found[block] = self._counts(codes, residuals, block)
        found[-1] = residuals.sum()
        return found

    def curvature(self, weights: Doubles) -> Doubles:
        """Returns X' W X (p, p)."""
        found = np.zeros((self.size, self.size))
        for codes, block in zip(self.codes, self.blocks, strict=True):
            counts = self._counts(codes, weights, block)
            found[block, block] = np.diag(counts)
            found[block, -1] = found[-1, block] = counts
        found[-1, -1] = weights.sum()
        for (first, rows), (second, columns) in combinations(zip(self.codes, self.blocks, strict=True), 2):
            height, width = rows.stop - rows.start + 1, columns.stop - columns.start + 1
            pairs = np.bincount(first * width + second, weights, height * width).reshape(height, width)
            found[rows, columns] = pairs[:-1, :-1]
            found[columns, rows] = pairs[:-1, :-1].T
        return found

    @staticmethod
    def _counts(codes: NDArray[np.int64], weights: Doubles, block: slice) -> Doubles:
        size = block.stop - block.start
        return np.bincount(codes, weights, size + 1)[:size].astype(np.float64)


def of_classes(
    scores: Doubles, is_class: NDArray[np.bool_], weights: Doubles
) -> tuple[Doubles, Doubles, float]:
    """Returns W (n,), the residuals (n,) and the deviance of logits (n,), each row with its weight."""
    scores = np.clip(scores, -_FARTHEST, _FARTHEST)
    chances = 1 / (1 + np.exp(-scores))
    deviance = 2 * float((weights * (np.logaddexp(0, scores) - is_class * scores)).sum())
    return weights * chances * (1 - chances), weights * (is_class - chances), deviance


def of_numbers(scores: Doubles, targets: Doubles) -> tuple[Doubles, Doubles, float]:
    """Returns the same of numbers (n,): their weights are 1."""
    residuals = targets - scores
    return np.ones(len(targets)), residuals, float((residuals * residuals).sum())
