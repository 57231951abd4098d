"""How a level of a tree grows from sums: of each node's rows, by cell, the slopes and curvatures of the loss.

A node splits where the loss falls most, to second order (Chen & Guestrin 2016, equation 7):

    gain = L^2 / (a + 1) + R^2 / (b + 1) - (L + R)^2 / (a + b + 1)

L and R: the sums of slopes on both sides, a and b those of curvatures, each at least 1. A leaf adds
-rate slope / (curvature + 1). A number's cells are cut in their order, and its missing values go to either
side; other cells are first sorted by slope / (curvature + 10). Sums are whole numbers of units and ties go to
the first candidate, so that all members grow the same trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from node.jobs.exact_arithmetic import Doubles
from node.models.additive import CellColumn

Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]

PENALTY, LEAST_CURVATURE = 1.0, 1.0
_CATEGORY_PENALTY = 10.0


@dataclass(frozen=True)
class Sums:
    """Of m nodes, by cell of all columns: `slopes` and `curvatures` (m, size), in units."""

    slopes: Whole
    curvatures: Whole

    def of(self, places: slice) -> Sums:
        """Returns those of one column's cells."""
        return Sums(self.slopes[:, places], self.curvatures[:, places])


@dataclass(frozen=True)
class Splits:
    """Of m nodes: the column (m,), -1 where none lowers the loss, and the cells (m, widest) that go left.

    `values` (m, 2): what the children add; `own` (m,): what the node adds as a leaf.
    """

    columns: Whole
    left: Mask
    values: Doubles
    own: Doubles


def splits(sums: Sums, columns: Sequence[CellColumn], unit: float, rate: float) -> Splits:
    """Returns the best split of each node; `rate`: which part of its step a leaf takes."""
    nodes = len(sums.slopes)
    widest = max(column.size for column in columns)
    best, chosen = np.zeros(nodes), np.full(nodes, -1)
    left, values = np.zeros((nodes, widest), bool), np.zeros((nodes, 2))
    whole = sums.of(columns[0].places)
    slope, curvature = whole.slopes.sum(1), whole.curvatures.sum(1)  # each row is in one cell of a column
    for place, column in enumerate(columns):
        for gain, mask in _candidates(sums.of(column.places), column, unit):
            better = gain > best
            best = np.where(better, gain, best)
            chosen = np.where(better, place, chosen)
            left[better] = np.pad(mask, ((0, 0), (0, widest - column.size)))[better]
    for place, column in enumerate(columns):
        here, of = chosen == place, sums.of(column.places)
        mask = left[here, : column.size]
        first = (of.slopes[here] * mask).sum(1), (of.curvatures[here] * mask).sum(1)
        second = slope[here] - first[0], curvature[here] - first[1]
        values[here] = rate * np.stack([_leaf(*first, unit), _leaf(*second, unit)], 1)
    return Splits(chosen, left, values, rate * _leaf(slope, curvature, unit))


def _leaf(slope: Whole, curvature: Whole, unit: float) -> Doubles:
    return -(slope * unit) / (curvature * unit + PENALTY)


def _candidates(sums: Sums, column: CellColumn, unit: float) -> list[tuple[Doubles, Mask]]:
    """Returns the best cut (m,) gain and (m, size) cells to the left, in each order of a column's cells."""
    nodes, size = sums.slopes.shape
    if column.kind != "number":
        ratio = (sums.slopes * unit) / (sums.curvatures * unit + _CATEGORY_PENALTY)
        order = np.argsort(np.where(sums.curvatures > 0, ratio, np.inf), axis=1, kind="stable")
        return [_best_cut(sums, order, unit, None)]
    order = np.broadcast_to(np.arange(size - column.has_missing), (nodes, size - column.has_missing))
    if not column.has_missing:
        return [_best_cut(sums, order, unit, None)]
    return [_best_cut(sums, order, unit, missing_left) for missing_left in (False, True)]


def _best_cut(sums: Sums, order: Whole, unit: float, missing_left: bool | None) -> tuple[Doubles, Mask]:
    nodes, size = sums.slopes.shape
    slope, curvature = sums.slopes.sum(1, keepdims=True), sums.curvatures.sum(1, keepdims=True)
    below = [
        np.cumsum(np.take_along_axis(part, order, 1), 1)[:, :-1] for part in (sums.slopes, sums.curvatures)
    ]
    if missing_left:
        below = [part + of[:, -1:] for part, of in zip(below, (sums.slopes, sums.curvatures), strict=True)]
    if not below[0].shape[1]:
        return np.zeros(nodes), np.zeros((nodes, size), bool)
    a, b = below[1] * unit, (curvature - below[1]) * unit
    x, y, whole = below[0] * unit, (slope - below[0]) * unit, slope * unit
    gain = x * x / (a + PENALTY) + y * y / (b + PENALTY) - whole * whole / (curvature * unit + PENALTY)
    gain = np.where((a >= LEAST_CURVATURE) & (b >= LEAST_CURVATURE), gain, 0.0)
    cut = gain.argmax(1)
    mask = np.zeros((nodes, size), bool)
    np.put_along_axis(mask, order, np.arange(order.shape[1]) <= cut[:, None], 1)
    mask[:, -1] |= bool(missing_left)
    return gain[np.arange(nodes), cut], mask
