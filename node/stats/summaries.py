"""What a report prints, as values: everything that it must not print is hidden in them already."""

from __future__ import annotations

from dataclasses import dataclass

from node.stats.disclosure import Cell, Hidden
from node.stats.estimates import Fit, SurvivalCurve
from node.stats.tests import Test

MINE = "mine"
"""What a member's own column is called."""
Shown = tuple[Cell, ...]
"""Counts by group, those of all rows first."""


@dataclass(frozen=True)
class NumberSummary:
    """A column of numbers by group, all rows first, and the bars (low, high, rows) of its histogram."""

    name: str
    missing: Shown
    moments: tuple[tuple[float, float] | Hidden, ...]  # mean and standard deviation
    quartiles: tuple[tuple[float, ...] | Hidden, ...]
    test: Test | None
    difference: float | None
    bars: tuple[tuple[float, float, int], ...]
    outside: Cell


@dataclass(frozen=True)
class CategorySummary:
    """A column of categories: of each level the counts by group, all rows first."""

    name: str
    levels: tuple[str, ...]
    counts: tuple[Shown, ...]
    known: Shown
    missing: Shown
    test: Test | None
    difference: float | None


@dataclass(frozen=True)
class TableOne:
    """All columns by the groups of `by`; the first group is all rows."""

    by: str | None
    groups: tuple[str, ...]
    rows: Shown
    columns: tuple[NumberSummary | CategorySummary, ...]


@dataclass(frozen=True)
class SiteSummary:
    """A member's column of table one: mean and deviation, or counts of levels, and last of the missing."""

    name: str
    rows: int
    moments: dict[str, tuple[float, float] | Hidden]
    counts: dict[str, Shown]


@dataclass(frozen=True)
class CrossTable:
    """Counts of two categories; the last row and column have the totals."""

    first: str
    second: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: tuple[Shown, ...]
    test: Test | None


@dataclass(frozen=True)
class Correlation:
    """Pearson's correlation of two columns, over the rows that have both."""

    first: str
    second: str
    value: float
    rows: Cell


@dataclass(frozen=True)
class ModelResult:
    """A model's fit on `rows` complete rows, or why there is none."""

    title: str
    kind: str
    rows: Cell | None
    fit: Fit | None
    reason: str | None


@dataclass(frozen=True)
class SurvivalResult:
    """Curves by group, up to the last time at which enough are at risk, and their test."""

    time: str
    event: str
    by: str | None
    curves: tuple[tuple[str, SurvivalCurve], ...]
    test: Test | None
    cox: ModelResult | None


@dataclass(frozen=True)
class Privacy:
    """What a release with noise has cost, if `honest` other members are honest, and its noise in rows."""

    epsilon: float
    delta: float
    honest: int
    cell_std: float


@dataclass(frozen=True)
class Results:
    """All of it, of `members` members together; `privacy`: of figures with noise."""

    members: int
    privacy: Privacy | None
    table_one: TableOne
    tables: tuple[CrossTable, ...]
    correlations: tuple[Correlation, ...]
    models: tuple[ModelResult, ...]
    survival: tuple[SurvivalResult, ...]
    sites: tuple[SiteSummary, ...] = ()
    """Each member's own figures, if all have said so, by the first digits of its key."""
    unfinished: str | None = None
    """Why models are left out that are not done: a member is gone; None: all is done."""
