"""An additive model in its owner's words: each column's curve with its band, in the owner's units.

A curve's values are what its cells add to a score: to the logit of a class, to the logarithm of a count, or
to a number in the target's unit. Their mean over all rows is 0, or over the cells where nobody counted rows.
The band has 95 % of what chance may have added, where the standard errors are known: without privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, timedelta
from itertools import pairwise

import torch
from torch import nn

from node.models.additive import Additive, CellColumn
from node.models.tree_ensemble import grown
from node.task.data_schema import (
    BooleanColumn,
    CategoryColumn,
    ClassTarget,
    Column,
    NumberColumn,
    NumberTarget,
    TableSchema,
    Target,
)
from node.task.sections import COUNTS, Task
from node.training.figures.column_curves import Curve, CurveCell, Curves

_WIDE = 1.96
"""Standard errors of a normal figure in 95 % of cases."""
_MISSING = "missing"
_EPOCH = date(1970, 1, 1)
_MOST_OUTPUTS = 20
"""The most outputs whose curves are shown: a page has to stay small."""
_DIGITS, _EDGE_DIGITS = 4, 7


def curves(model: nn.Module, task: Task) -> Curves | None:
    """Returns the curves of an additive model; None for another model, and before anything is learned."""
    schema = task.data.schema
    if not isinstance(model, Additive) or not isinstance(schema, TableSchema) or not model.values.any():
        return None
    target, outputs = schema.target, min(len(model.values), _MOST_OUTPUTS)
    scale = "odds" if isinstance(target, ClassTarget) else "factor" if task.train.loss == COUNTS else "number"
    unit = target.std if isinstance(target, NumberTarget) and scale == "number" else 1.0
    values = (model.values[:outputs].double() * unit).tolist()
    wide = (model.errors[:outputs].double() * unit * _WIDE).tolist()
    rows = model.rows.tolist()
    found = [
        _curve(column, named, words, rows, values, wide) for column, named, words in _columns(model, schema)
    ]
    names = _outputs(target, len(model.values))[:outputs]
    return Curves(scale, names, tuple(found), sum(map(grown, _trees(model))))


def _trees(model: Additive) -> Sequence[torch.Tensor]:
    return () if model.interactions is None else list(model.interactions.nodes)


def _curve(
    column: CellColumn,
    named: Column,
    words: _Words,
    rows: Sequence[float],
    values: Sequence[Sequence[float]],
    wide: Sequence[Sequence[float]],
) -> Curve:
    counted = sum(rows[column.places])
    places = [column.start + cell for cell in words]
    shown = [place for place in places if not counted or _adds(place, rows, values, wide)] or places[:1]
    weights = [rows[place] if counted else 1.0 for place in shown]
    added = [[each[place] for place in shown] for each in values]
    means = [0.0 if counted else sum(each) / len(each) for each in added]
    bands = [[each[place] for place in shown] for each in wide]
    return Curve(
        column=named.name,
        kind=named.kind,
        unit=(named.unit or "") if isinstance(named, NumberColumn) else "",
        cells=tuple(
            CurveCell(*words[place - column.start], _rounded(rows[place] / counted, 2) if counted else None)
            for place in shown
        ),
        values=tuple(
            tuple(_rounded(value - mean) for value in each) for each, mean in zip(added, means, strict=True)
        ),
        bands=tuple(tuple(map(_rounded, each)) for each in bands) if any(map(any, bands)) else (),
        importance=tuple(_rounded(_spread(each, weights)) for each in added),
    )


def _adds(
    place: int, rows: Sequence[float], values: Sequence[Sequence[float]], wide: Sequence[Sequence[float]]
) -> bool:
    """Returns whether a cell has rows, and enough of them that it adds anything."""
    return rows[place] > 0 and any(each[place] for each in (*values, *wide))


def _outputs(target: Target, outputs: int) -> tuple[str, ...]:
    if isinstance(target, ClassTarget):
        return target.values[-1:] if outputs == 1 else target.values
    return (target.name or "the target",)


def _rounded(value: float, digits: int = _DIGITS) -> float:
    return float(f"{value:.{digits}g}")


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
            inner = (_rounded(column.mean + column.std * edge, _EDGE_DIGITS) for edge in edges)
            ends = (-math.inf, *inner, math.inf)
            found = {cell: _range(column, low, high) for cell, (low, high) in enumerate(pairwise(ends))}
            return found | ({size - 1: (_MISSING, None, None)} if column.missing else {})
        case BooleanColumn():
            words = ("no", "yes", _MISSING) if column.missing else ("no", "yes")
            return {cell: (word, None, None) for cell, word in enumerate(words)}
        case CategoryColumn():
            listed = enumerate((*column.values, "other", _MISSING))
            return {cell: (word, None, None) for cell, word in listed}
    raise ValueError(f"a column of kind {column.kind} has no curve")


def _range(column: NumberColumn, low: float, high: float) -> tuple[str, float | None, float | None]:
    if high == math.inf:
        return ("any value", None, None) if low == -high else (f"from {_written(column, low)}", low, None)
    end = _written(column, high)
    if low == -math.inf:
        return f"below {end}", None, high
    return f"{_written(column, low)} to {end}", low, high


def _written(column: NumberColumn, value: float) -> str:
    match column.kind:
        case "date":
            return str(_EPOCH + timedelta(days=round(value)))
        case "time":
            hours, minutes = divmod(round(60 * value), 60)
            return f"{hours:02}:{minutes:02}"
    return f"{value:.4g}"


def _spread(values: Sequence[float], weights: Sequence[float]) -> float:
    """Returns the standard deviation of cells' values by their weights."""
    whole = sum(weights)
    mean = sum(weight * value for weight, value in zip(weights, values, strict=True)) / whole
    squares = (weight * (value - mean) ** 2 for weight, value in zip(weights, values, strict=True))
    return math.sqrt(sum(squares) / whole)
