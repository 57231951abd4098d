"""An additive model in its owner's words: each column's curve with its band, and a row's score taken apart.

A curve's values are what its cells add to a score: to the logit of a class, or to a number in the scaled unit
of the target. Their mean over all rows is 0. The band has 95 % of what chance may have added, where the
standard errors are known, which is without privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

import torch

from node.models.additive import Additive, CellColumn
from node.task.data_schema import BooleanColumn, CategoryColumn, Column, NumberColumn, TableSchema

_WIDE = 1.96
"""Standard errors of a normal figure in 95 % of cases."""
_MISSING = "missing"
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class CurveCell:
    """A cell: in words, its values from `low` to below `high` in the column's unit, and what it adds.

    `low` and `high` are None for an open end, and for what is no number. `band` is None, and `rows` 0, where
    these are not known.
    """

    label: str
    low: float | None
    high: float | None
    value: float
    band: tuple[float, float] | None
    rows: int


@dataclass(frozen=True)
class Curve:
    """A column's curve for one output. `importance`: the standard deviation of what it adds to the rows."""

    column: str
    kind: str
    importance: float
    cells: tuple[CurveCell, ...]


@dataclass(frozen=True)
class Part:
    """What the cell of a row's column, in words, adds to its score."""

    column: str
    cell: str
    added: float


def curves(model: Additive, schema: TableSchema, output: int = 0) -> tuple[Curve, ...]:
    """Returns the curve of each column for one output, the most important first."""
    values, errors, rows = model.values[output].tolist(), model.errors[output].tolist(), model.rows.tolist()
    counted = any(rows)
    found = []
    for column, named, words in _columns(model, schema):
        cells = []
        for cell, (label, low, high) in words.items():
            place = column.start + cell
            if counted and not rows[place]:
                continue
            wide = _WIDE * errors[place]
            band = (values[place] - wide, values[place] + wide) if wide else None
            cells.append(CurveCell(label, low, high, values[place], band, int(rows[place])))
        found.append(Curve(named.name, named.kind, _spread(cells), tuple(cells)))
    return tuple(sorted(found, key=lambda curve: -curve.importance))


def explain(model: Additive, schema: TableSchema, row: torch.Tensor, output: int = 0) -> tuple[Part, ...]:
    """Returns what each column adds to the score of an encoded row (features,), the largest part first.

    What trees add by several columns is one part.
    """
    rows = row.unsqueeze(0)
    places = model.body.places(rows)[0].tolist()
    added = model.contributions(rows)[0, :, output].tolist()
    parts = [
        Part(named.name, words[place - column.start][0], each)
        for (column, named, words), place, each in zip(_columns(model, schema), places, added, strict=True)
    ]
    if model.interactions is not None:
        parts.append(Part("interactions", "trees", float(model.added_together(rows)[0, output])))
    return tuple(sorted(parts, key=lambda part: -abs(part.added)))


_Words = dict[int, tuple[str, float | None, float | None]]
"""Of each cell of a column that a row may be in: in words, its low and high end."""


def _columns(model: Additive, schema: TableSchema) -> list[tuple[CellColumn, Column, _Words]]:
    edges = iter(model.body.number_edges())
    return [
        (column, named, _words(named, next(edges) if column.kind == "number" else (), column.size))
        for column, named in zip(model.body.columns, schema.columns, strict=True)
    ]


def _words(column: Column, edges: tuple[float, ...], size: int) -> _Words:
    match column:
        case NumberColumn():
            ends = (-math.inf, *(column.mean + column.std * edge for edge in edges), math.inf)
            found = {cell: _range(column, low, high) for cell, (low, high) in enumerate(pairwise(ends))}
            return found | ({size - 1: (_MISSING, None, None)} if column.missing else {})
        case BooleanColumn():
            return {cell: (word, None, None) for cell, word in enumerate(("no", "yes", _MISSING))}
        case CategoryColumn():
            words = enumerate((*column.values, "other", _MISSING))
            return {cell: (word, None, None) for cell, word in words}


def _range(column: NumberColumn, low: float, high: float) -> tuple[str, float | None, float | None]:
    if high == math.inf:
        return ("any value", None, None) if low == -high else (f"from {_written(column, low)}", low, None)
    end = _written(column, high)
    return (
        (f"below {end}", None, high) if low == -math.inf else (f"{_written(column, low)} to {end}", low, high)
    )


def _written(column: NumberColumn, value: float) -> str:
    match column.kind:
        case "date":
            return str(_EPOCH + timedelta(days=round(value)))
        case "time":
            hours, minutes = divmod(round(60 * value), 60)
            return f"{hours:02}:{minutes:02}"
    return f"{value:.4g}"


def _spread(cells: list[CurveCell]) -> float:
    """Returns the standard deviation of the cells' values, by their rows where these are known."""
    weights = [cell.rows or 1 for cell in cells]
    mean = sum(weight * cell.value for weight, cell in zip(weights, cells, strict=True)) / sum(weights)
    squares = (weight * (cell.value - mean) ** 2 for weight, cell in zip(weights, cells, strict=True))
    return math.sqrt(sum(squares) / sum(weights))
