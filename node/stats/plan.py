"""What a task's `[statistics]` asks, as parts of a job, and whether a member's rows can take part.

All is checked before the first sum, so that no member finds out in the middle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from node.jobs.exact_arithmetic import Doubles
from node.jobs.statistics.columns import Category, Column, Number, Table, rows_of
from node.jobs.statistics.counts import CountsPart
from node.jobs.statistics.design import design
from node.jobs.statistics.glm import Glm
from node.jobs.statistics.models import ModelPart
from node.jobs.statistics.part import Part
from node.jobs.statistics.sites import SitesPart
from node.jobs.statistics.survival import MOST_TIMES, Cox, SurvivalPart, Times
from node.jobs.statistics.together import Statistics
from node.stats.disclosure import LEAST_CELL
from node.stats.formula import parse
from node.system.errors import ConfigError, shown
from node.task.statistics import ModelAsked, StatisticsSection, SurvivalAsked
from protocol.wire.ids import Key

MOST_WORDS = 1 << 21
"""The most words of a sum: 8 MB."""
_MOST_OUTSIDE = 0.01  # of a column's values
_SECTION = "statistics"


@dataclass(frozen=True)
class SurvivalPlan:
    """Curves, and a Cox model if one is asked."""

    curves: SurvivalPart
    cox: ModelPart | None


@dataclass(frozen=True)
class Plan:
    """All that is asked, in the order of the section."""

    asked: StatisticsSection
    columns: tuple[Column, ...]
    table_one: CountsPart
    models: tuple[ModelPart, ...]
    survival: tuple[SurvivalPlan, ...]
    sites: SitesPart
    """Each member's own figures; part of the job if all have said so."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of its job, in order."""
        survival = [part for plan in self.survival for part in (plan.curves, plan.cox) if part is not None]
        sites = (self.sites,) if self.asked.per_site else ()
        return (self.table_one, *self.models, *survival, *sites)

    @property
    def events(self) -> frozenset[str]:
        """The columns that say whether something happened: their values have to be one of two."""
        fitted = (part.likelihood for part in self.models)
        responses = (one.response for one in fitted if isinstance(one, Glm) and one.family == "binomial")
        return frozenset(
            column.name for column in (*responses, *(plan.curves.times.event for plan in self.survival))
        )

    def job(self, table: Table) -> Statistics:
        """Returns the job of a member with these rows."""
        return Statistics(self.parts, table)


def plan(asked: StatisticsSection, columns: Mapping[str, Column], own: Key = b"") -> Plan:
    """Returns the plan for `columns`, by name, of the member with the key `own`.

    Raises ConfigError for what cannot be computed of them.
    """
    by = None if asked.by is None else _category(asked.by, f"{_SECTION}.by", columns)
    counted = tuple(column for column in columns.values() if column != by)
    for place, pair in enumerate(asked.tables):
        for name in pair:
            _category(name, f"{_SECTION}.tables.{place}", columns)
    pairs = tuple((first, second) for first, second in asked.tables)
    tabled = counted if by is None or not any(by.name in pair for pair in pairs) else (*counted, by)
    found = Plan(
        asked=asked,
        columns=tuple(columns.values()),
        table_one=CountsPart(tabled, by, pairs),
        models=tuple(
            _model(model, f"{_SECTION}.models.{place}", columns, asked.least_rows)
            for place, model in enumerate(asked.models)
        ),
        survival=tuple(
            _survival(each, f"{_SECTION}.survival.{place}", columns, asked.least_rows)
            for place, each in enumerate(asked.survival)
        ),
        sites=SitesPart(counted, own, LEAST_CELL, asked.least_rows),
    )
    most = max(sum(part.words(generation) for part in found.parts) for generation in range(4))
    if most > MOST_WORDS:
        raise ConfigError(
            f"{_SECTION} asks for sums of {most} words; allowed: at most {MOST_WORDS}; take coarser grids, "
            "or fewer groups, columns or models"
        )
    return found


def _model(asked: ModelAsked, where: str, columns: Mapping[str, Column], least_rows: int) -> ModelPart:
    formula = parse(asked.formula, columns)
    response = columns[formula.response]
    match asked.family, response:
        case "binomial", _:
            _binary(formula.response, f"{where}.formula", columns)
        case "poisson", Number() if response.low < 0:
            raise ConfigError(
                f"{where}: {shown(response.name)} has values from {response.low:g}; allowed by family = "
                "'poisson': counts from 0; take another family, or a low of 0 in data.schema"
            )
        case _, Category():
            raise ConfigError(
                f"{where}: {shown(response.name)} is a category; allowed by family = {asked.family!r}: a "
                "number; take family = 'binomial', or another response"
            )
    return ModelPart(design(formula.terms, columns), Glm(asked.family, response), least_rows)


def _survival(
    asked: SurvivalAsked, where: str, columns: Mapping[str, Column], least_rows: int
) -> SurvivalPlan:
    time = _column(asked.time, f"{where}.time", columns)
    if not isinstance(time, Number):
        raise ConfigError(f"{where}.time = {shown(time.name)} is refused; allowed: a column of numbers")
    times = Times(time, _binary(asked.event, f"{where}.event", columns), asked.grid)
    if times.places > MOST_TIMES:
        raise ConfigError(
            f"{where}.grid = {asked.grid:g} is refused: {times.places} times up to {time.high:g}; allowed: "
            f"at most {MOST_TIMES}; take a coarser grid"
        )
    by = None if asked.by is None else _category(asked.by, f"{where}.by", columns)
    for name in asked.cox:
        if name in (asked.time, asked.event):
            raise ConfigError(f"{where}.cox has {shown(name)}, which is the time or the event; leave it out")
        _column(name, f"{where}.cox", columns)
    cox = None
    if asked.cox:
        terms = [frozenset({name}) for name in asked.cox]
        cox = ModelPart(design(terms, columns), Cox(times), least_rows)
    return SurvivalPlan(SurvivalPart(times, by), cox)


def _column(name: str, where: str, columns: Mapping[str, Column]) -> Column:
    if name not in columns:
        raise ConfigError(f"{where} = {shown(name)} is refused; allowed: {', '.join(columns)}")
    return columns[name]


def _category(name: str, where: str, columns: Mapping[str, Column]) -> Category:
    column = _column(name, where, columns)
    if not isinstance(column, Category):
        allowed = (
            ", ".join(one.name for one in columns.values() if isinstance(one, Category)) or "none is there"
        )
        raise ConfigError(f"{where} = {shown(name)} is refused; allowed: a category: {allowed}")
    return column


def _binary(name: str, where: str, columns: Mapping[str, Column]) -> Column:
    """Returns the column of an event: two levels, or numbers from 0 to 1."""
    column = _column(name, where, columns)
    is_binary = (
        len(column.levels) == 2 if isinstance(column, Category) else (column.low, column.high) == (0.0, 1.0)
    )
    if not is_binary:
        raise ConfigError(
            f"{where} = {shown(name)} is refused; allowed: yes or no, a category of two values, or a number "
            "from 0 to 1"
        )
    return column


def check_rows(of: Plan, table: Table, where: str) -> None:
    """Raises ConfigError unless a member's rows can take part; `where` names the data."""
    rows = rows_of(table)
    if rows < of.asked.least_rows:
        raise ConfigError(
            f"{where} has {rows} rows; allowed by {_SECTION}.least_rows: {of.asked.least_rows} or more, so "
            "that no total shows single rows"
        )
    for column in of.columns:
        if isinstance(column, Number):
            values = table[column.name]
            outside = (values < column.low) | (values > column.high)
            if outside.sum() > _MOST_OUTSIDE * (~np.isnan(values)).sum():
                raise _bad_cell(where, column, values, outside, f"{column.low:g} to {column.high:g}")
    for times in (each.curves.times for each in of.survival):
        values = table[times.time.name]
        _check_cells(where, times.time, values, values < 0, "a time from 0")
        _check_binary(where, times.event, table)
    for likelihood in (part.likelihood for part in of.models):
        if isinstance(likelihood, Glm) and likelihood.family == "binomial":
            _check_binary(where, likelihood.response, table)
        if isinstance(likelihood, Glm) and likelihood.family == "poisson":
            values = table[likelihood.response.name]
            _check_cells(
                where, likelihood.response, values, (values < 0) | (values % 1 > 0), "a whole number from 0"
            )


def _check_binary(where: str, column: Column, table: Table) -> None:
    if isinstance(column, Number):
        values = table[column.name]
        _check_cells(where, column, values, ~np.isin(values, (0.0, 1.0)) & ~np.isnan(values), "0 or 1")


def _check_cells(where: str, column: Column, values: Doubles, bad: NDArray[np.bool_], allowed: str) -> None:
    if bad.any():
        raise _bad_cell(where, column, values, bad, allowed)


def _bad_cell(
    where: str, column: Column, values: Doubles, bad: NDArray[np.bool_], allowed: str
) -> ConfigError:
    row = int(np.flatnonzero(bad)[0])
    return ConfigError(
        f"{where}, row {row + 1}, column {shown(column.name)}: {values[row]:g} is not allowed: {allowed}"
        + (f"; {int(bad.sum())} rows have such a value" if bad.sum() > 1 else "")
    )
