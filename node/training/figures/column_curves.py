"""The curves of an additive model as values, which a page shows without the model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CurveCell:
    """A cell in words, its values from `low` to below `high` in the column's unit, and its share of the rows.

    `low` and `high` are None for an open end, and for what is no number. `share`, in two digits, is None
    where nobody counted the rows.
    """

    label: str
    low: float | None
    high: float | None
    share: float | None


@dataclass(frozen=True, slots=True)
class Curve:
    """A column's curve: for each output, what each cell adds (`values`), and how wide its band is to a side.

    `bands` is empty where the standard errors are not known. `importance`: for each output the standard
    deviation of what the column adds to the rows.
    """

    column: str
    kind: str
    unit: str
    cells: tuple[CurveCell, ...]
    values: tuple[tuple[float, ...], ...]
    bands: tuple[tuple[float, ...], ...]
    importance: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Curves:
    """The curves of all columns, in the schema's order, for the `outputs` by name: classes, or the target.

    `scale`: "odds" or "factor", where values are logarithms of what multiplies odds or a count; "number".
    `trees`: how many trees add what several columns do together, which no curve has.
    """

    scale: str
    outputs: tuple[str, ...]
    columns: tuple[Curve, ...]
    trees: int = 0
