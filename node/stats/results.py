"""What a job of statistics has found, with everything left out that a report must not print."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from node.jobs.statistics.columns import Category, Number
from node.jobs.statistics.counts import QUARTERS, Counted, CountsPart, value_at
from node.jobs.statistics.models import MOST_OF_ROWS, ModelPart
from node.jobs.statistics.newton import Newton, Status
from node.jobs.statistics.sites import Site
from node.stats.disclosure import (
    LEAST_CELL,
    LEAST_FOR_QUARTILES,
    Hidden,
    bins,
    cell,
    hidden,
    hidden_means,
    last_place,
    part_of,
)
from node.stats.estimates import fit, kaplan_meier
from node.stats.plan import Plan, SurvivalPlan
from node.stats.summaries import (
    CategorySummary,
    Correlation,
    CrossTable,
    ModelResult,
    NumberSummary,
    Results,
    Shown,
    SiteSummary,
    SurvivalResult,
    TableOne,
)
from node.stats.tests import (
    Moments,
    compare_categories,
    compare_means,
    difference_of_means,
    difference_of_shares,
    log_rank,
)
from node.storage.nicknames import DIGITS
from node.storage.vector_files import Floats

Counts = NDArray[np.int64]
_BARS = 32
REASONS = {
    Status.NEW: "left out: unfinished, as a member is gone",
    Status.RUNNING: "left out: unfinished, as a member is gone",
    Status.COLLINEAR: "left out: a column is a combination of the others, or constant",
    Status.SEPARATED: "left out: its columns separate events from the others, so a coefficient is infinite",
    Status.UNSETTLED: "left out: its sums have not settled",
    Status.REFUSED: (
        f"left out: a member has too few complete rows, or they allow fewer parameters ({MOST_OF_ROWS:.0%})"
    ),
}


def has_table_one(plan: Plan, base: Floats) -> bool:
    """Returns whether a base has what `results` needs."""
    return plan.table_one.is_over(plan.job({}).states(base)[0])


def results(plan: Plan, base: Floats, members: int) -> Results:
    """Returns what a base shows whose table one is done; models that are not done have a reason."""
    states = dict(zip(map(id, plan.parts), plan.job({}).states(base), strict=True))
    counted = plan.table_one.counted(states[id(plan.table_one)])

    def model(part: ModelPart, title: str, kind: str) -> ModelResult:
        return _model(part, part.newton(states[id(part)]), title, kind, int(counted.rows.sum()))

    asked = zip(plan.asked.models, plan.models, strict=True)
    sites = plan.sites.sites(states[id(plan.sites)]) if id(plan.sites) in states else ()
    return Results(
        members=members,
        privacy=None,
        table_one=table_one(plan.table_one, counted),
        tables=tuple(_cross(plan.table_one, pair, counted) for pair in plan.table_one.tables),
        correlations=tuple(_correlations(counted, int(counted.rows.sum()))),
        models=tuple(model(part, one.formula, one.family) for one, part in asked),
        survival=tuple(
            _survival(one, one.curves.counted(states[id(one.curves)]), model) for one in plan.survival
        ),
        sites=tuple(site_summary(one, plan, one.key.hex()[:DIGITS]) for one in sites),
    )


def site_summary(site: Site, plan: Plan, name: str) -> SiteSummary:
    """Returns what a member shows, in the columns' units."""
    moments: dict[str, tuple[float, float] | Hidden] = {}
    for column in plan.sites.columns:
        if isinstance(column, Number):
            one, extent = site.moments[column.name], column.extent
            moments[column.name] = (
                Hidden.BESIDE if one is None else (extent.middle + extent.half * one[0], extent.half * one[1])
            )
    counts = {
        name: tuple(Hidden.BESIDE if count is None else count for count in of)
        for name, of in site.counts.items()
    }
    return SiteSummary(name, site.rows, moments, counts)


def _model(part: ModelPart, newton: Newton, title: str, kind: str, of: int) -> ModelResult:
    if newton.status is Status.SETTLED:
        return ModelResult(title, kind, part_of(int(newton.rows), of), fit(part, newton), None)
    return ModelResult(title, kind, None, None, REASONS[newton.status])


def table_one(part: CountsPart, counted: Counted) -> TableOne:
    """Returns the table, without what must not be printed."""
    levels = () if part.by is None else part.by.levels
    columns: list[NumberSummary | CategorySummary] = []
    hide = hidden(counted.rows[None, :])[-1]
    for column in part.columns:
        if column == part.by:
            continue
        cells = counted.cells[column.name]
        there = cells.sum(axis=1)
        if isinstance(column, Number):
            marks = hidden(np.stack([there, counted.rows - there]))
            columns.append(_number(column, counted, there, marks, len(levels)))
        else:
            table = np.concatenate([cells.T, (counted.rows - there)[None, :]])
            marks = hidden(table)
            columns.append(_category(column, table, marks, len(levels)))
        hide = hide | marks[-1]
    rows = np.append(counted.rows, counted.rows.sum())
    return TableOne(
        by=None if part.by is None else part.by.name,
        groups=("Overall", *levels),
        rows=_shown(rows, hide, len(levels)),
        columns=tuple(columns),
    )


def _shown(counts: Counts, hide: NDArray[np.bool_], groups: int) -> Shown:
    """Returns the counts of all rows and of each group, of (S + 1,) with those of all last."""
    places = [len(counts) - 1, *range(groups)]
    return tuple(cell(int(counts[place]), bool(hide[place])) for place in places)


def _number(
    column: Number, counted: Counted, there: Counts, marks: NDArray[np.bool_], groups: int
) -> NumberSummary:
    name = column.name
    means = counted.sums[name] / np.maximum(there, 1)
    rows = int(there.sum())
    mean = float(counted.sums[name].sum()) / max(rows, 1)
    between = (there * (means - mean) ** 2).sum()
    squares = float(counted.squares[name].sum() + between)

    def moments(rows: int, mean: float, squares: float) -> Moments:
        spread = max(squares, 0.0) / (rows - 1) if rows > 1 else 0.0
        extent = column.extent
        return Moments(rows, extent.middle + extent.half * mean, extent.half * spread**0.5)

    of_groups = zip(there.tolist(), means.tolist(), counted.squares[name].tolist(), strict=True)
    all_moments = [moments(rows, mean, squares), *[moments(*each) for each in of_groups][:groups]]
    few = [rows < LEAST_CELL, *hidden_means(there, groups).tolist()]
    compared = all_moments[1:] if not any(few) else []
    missing = np.append(counted.rows - there, (counted.rows - there).sum())
    places = [len(counted.places[name]) - 1, *range(groups)]
    shown = _shown(missing, marks[1], groups)
    bars = (
        bins(counted.cells[name].sum(axis=0), _BARS, LEAST_CELL) if not isinstance(shown[0], Hidden) else []
    )
    outside = counted.outside[name]
    step = (column.high - column.low) / counted.cells[name].shape[1]
    return NumberSummary(
        name=name,
        missing=shown,
        moments=tuple(
            Hidden.FEW if one.rows < LEAST_CELL else Hidden.BESIDE if is_few else (one.mean, one.deviation)
            for one, is_few in zip(all_moments, few, strict=True)
        ),
        quartiles=tuple(
            _quartiles(column, counted.places[name][place], one.rows)
            for place, one in zip(places, all_moments, strict=True)
        ),
        test=compare_means(compared),
        difference=difference_of_means(compared),
        bars=tuple((column.low + a * step, column.low + b * step, count) for a, b, count in bars),
        outside=cell(outside, 0 < outside < LEAST_CELL),
    )


def _quartiles(column: Number, places: Counts, rows: int) -> tuple[float, ...] | Hidden:
    """Returns the quartiles, between the two rows (3, 2) nearest to each, of type 7."""
    if rows < LEAST_FOR_QUARTILES:
        return Hidden.FEW
    share = np.array([(rows - 1) * quarter % 4 / 4 for quarter in QUARTERS])
    below, above = value_at(column, places).T
    return tuple((below + share * (above - below)).tolist())


def _category(column: Category, table: Counts, marks: NDArray[np.bool_], groups: int) -> CategorySummary:
    whole = np.concatenate([table, table.sum(axis=1, keepdims=True)], axis=1)
    counts = tuple(_shown(row, hide, groups) for row, hide in zip(whole, marks[:-1], strict=True))
    known = whole[:-1].sum(axis=0)
    hide = marks[-2] | marks[-1]  # with it the missing ones could be computed
    groups_of = np.s_[:-1, :groups]
    compared = np.zeros_like(table[groups_of]) if marks[:-1][groups_of].any() else table[groups_of]
    return CategorySummary(
        name=column.name,
        levels=column.levels,
        counts=counts[:-1],
        known=_shown(known, hide, groups),
        missing=counts[-1],
        test=compare_categories(compared) if groups else None,
        difference=difference_of_shares(compared) if groups else None,
    )


def _cross(part: CountsPart, pair: tuple[str, str], counted: Counted) -> CrossTable:
    levels = {column.name: column.levels for column in part.columns if isinstance(column, Category)}
    table = counted.tables[pair]
    marks = hidden(table)
    whole = np.pad(table, ((0, 1), (0, 1)))
    whole[-1], whole[:, -1] = whole.sum(axis=0), whole.sum(axis=1)
    whole[-1, -1] = table.sum()
    counts = tuple(
        tuple(cell(int(count), bool(hide)) for count, hide in zip(row, hides, strict=True))
        for row, hides in zip(whole, marks, strict=True)
    )
    first, second = pair
    test = None if marks.any() else compare_categories(table)
    return CrossTable(first, second, levels[first], levels[second], counts, test)


def _correlations(counted: Counted, of: int) -> list[Correlation]:
    found = []
    for (first, second), (rows, a, b, aa, bb, ab) in counted.pairs.items():
        if rows < LEAST_CELL:
            continue
        variances = (aa - a * a / rows) * (bb - b * b / rows)
        if variances > 0:
            value = float((ab - a * b / rows) / np.sqrt(variances))
            found.append(Correlation(first, second, value, part_of(int(rows), of)))
    return found


def _survival(
    plan: SurvivalPlan, counts: Counts, model: Callable[[ModelPart, str, str], ModelResult]
) -> SurvivalResult:
    times, by = plan.curves.times, plan.curves.by
    labels = ("all",) if by is None else by.levels
    curves = []
    for label, (events, leaving) in zip(labels, counts, strict=True):
        curve = kaplan_meier(events, leaving, times.grid)
        end = last_place(curve.at_risk)
        if end:
            curves.append((label, curve.until(end)))
    return SurvivalResult(
        time=times.time.name,
        event=times.event.name,
        by=None if by is None else by.name,
        curves=tuple(curves),
        test=log_rank(counts[:, 0], counts[:, 1]) if len(labels) > 1 else None,
        cox=None if plan.cox is None else model(plan.cox, f"{times.time.name}, {times.event.name}", "cox"),
    )
