"""Table one from noised sums: made consistent afterwards, which costs nothing, and without what noise drowns.

All columns count the same rows, so their cells are first brought to common group sizes (weighted least
squares), then to no negative cell and the group's size as their sum. A figure whose noise has a standard
deviation above a quarter of it is not printed. There are no tests: noise would have to be part of their
distributions.
"""

from __future__ import annotations

import math

import numpy as np

from mechanisms.joint_release import common_sizes, projected
from node.jobs.exact_arithmetic import Doubles
from node.jobs.statistics.columns import Category, Number
from node.jobs.statistics.private import CELLS, Noised, PrivateCounts, opened
from node.stats.disclosure import Cell, Hidden, bins
from node.stats.summaries import CategorySummary, NumberSummary, Privacy, Results, Shown, TableOne
from node.stats.tests import Moments, difference_of_means
from node.storage.vector_files import Floats

MOST_NOISE = 0.25
"""The most noise of a figure that is printed: one standard deviation, as a share of the figure."""


def noised_results(counts: PrivateCounts, base: Floats, epsilon: float, delta: float) -> Results:
    """Returns what a base that is over shows; `epsilon`, `delta`: what its noise was chosen for."""
    members, words = opened(base)
    std = float(np.median([counts.cell_std(column, members) for column in counts.columns]))
    return Results(
        members=members,
        privacy=Privacy(epsilon, delta, counts.release.noise.honest, std),
        table_one=noised_table_one(counts, counts.noised(words), members),
        tables=(),
        correlations=(),
        models=(),
        survival=(),
    )


def noised_table_one(counts: PrivateCounts, noised: Noised, members: int) -> TableOne:
    """Returns the table of a sum of `members`."""
    stds = [counts.cell_std(column, members) for column in counts.columns]
    tables = [noised.cells[column.name] for column in counts.columns]
    sizes, size_std = common_sizes(tables, stds)
    levels = () if counts.by is None else counts.by.levels
    columns: list[NumberSummary | CategorySummary] = []
    for column, table, std in zip(counts.columns, tables, stds, strict=True):
        if column == counts.by:
            continue
        consistent = np.stack([projected(row, size) for row, size in zip(table, sizes, strict=True)])
        every = _with_all(consistent, len(levels))
        noise = [std * math.sqrt(counts.groups), *[std] * len(levels)]
        if isinstance(column, Number):
            sums = _with_all(noised.moments[column.name], len(levels))
            columns.append(_number(column, every, noise, sums, counts.moment_std(column, members)))
        else:
            columns.append(_category(column, every, noise))
    every_size = _with_all(sizes[:, None], len(levels))[:, 0]
    size_noise = [size_std * math.sqrt(counts.groups), *[size_std] * len(levels)]
    return TableOne(
        by=None if counts.by is None else counts.by.name,
        groups=("Overall", *levels),
        rows=_shown(every_size, size_noise),
        columns=tuple(columns),
    )


def _with_all(values: Doubles, groups: int) -> Doubles:
    """Returns (1 + groups, m): the sum of all groups (S, m), then each group that is printed."""
    return np.concatenate([values.sum(axis=0, keepdims=True), values[:groups]])


def _cell(count: float, std: float) -> Cell:
    return Hidden.NOISE if std > MOST_NOISE * count else round(count)


def _shown(counts: Doubles, stds: list[float]) -> Shown:
    return tuple(_cell(count, std) for count, std in zip(counts.tolist(), stds, strict=True))


def _category(column: Category, table: Doubles, stds: list[float]) -> CategorySummary:
    return CategorySummary(
        name=column.name,
        levels=column.levels,
        counts=tuple(_shown(level, stds) for level in table[:, :-1].T),
        known=_shown(table[:, :-1].sum(axis=1), stds),
        missing=_shown(table[:, -1], stds),
        test=None,
        difference=None,
    )


def _number(column: Number, table: Doubles, stds: list[float], sums: Doubles, std: float) -> NumberSummary:
    there = table[:, :-1].sum(axis=1)
    # The sum over all groups has the noise of each.
    noise = [std * stds[0] / stds[-1], *[std] * (len(stds) - 1)]
    found = [_moments(*each) for each in zip(there.tolist(), sums.tolist(), noise, stds, strict=True)]
    extent = column.extent
    scaled = [
        Hidden.NOISE if one is None else (extent.middle + extent.half * one[0], extent.half * one[1])
        for one in found
    ]
    pairs = zip(there[1:].tolist(), scaled[1:], strict=True)
    groups = [Moments(round(rows), *one) for rows, one in pairs if not isinstance(one, Hidden)]
    step = (column.high - column.low) / CELLS
    bars = bins(table[0, :-1], CELLS, 1 / MOST_NOISE * stds[0])
    return NumberSummary(
        name=column.name,
        missing=_shown(table[:, -1], stds),
        moments=tuple(scaled),
        quartiles=tuple(_quartiles(column, row[:-1], one) for row, one in zip(table, stds, strict=True)),
        test=None,
        difference=difference_of_means(groups) if len(groups) == len(stds) - 1 else None,
        bars=tuple((column.low + a * step, column.low + b * step, rows) for a, b, rows in bars),
        outside=Hidden.NOISE,
    )


def _moments(rows: float, sums: list[float], std: float, rows_std: float) -> tuple[float, float] | None:
    """Returns mean and standard deviation of u, unless noise drowns one of them.

    `std`, `rows_std`: of the sums and of the rows. Errors of first order.
    """
    if rows <= 0:
        return None
    mean, square = sums[0] / rows, sums[1] / rows
    variance = square - mean * mean
    of_mean = math.hypot(std, rows_std * mean) / rows
    of_variance = math.hypot(std, 2 * mean * std, (2 * mean * mean - square) * rows_std) / rows
    if variance <= 0 or of_mean > MOST_NOISE * math.sqrt(variance) or of_variance > 2 * MOST_NOISE * variance:
        return None
    return mean, math.sqrt(variance)


def _quartiles(column: Number, cells: Doubles, std: float) -> tuple[float, ...] | Hidden:
    """Returns the quartiles, each on a line through its cell, unless noise moves a rank by much."""
    rows = float(cells.sum())
    if std * math.sqrt(len(cells)) > MOST_NOISE * rows / 4:
        return Hidden.NOISE
    ends = column.low + (column.high - column.low) * np.arange(len(cells) + 1) / len(cells)
    up_to = np.concatenate([[0.0], np.cumsum(cells)])
    kept = np.concatenate([[True], cells > 0])
    return tuple(np.interp(rows * np.array([0.25, 0.5, 0.75]), up_to[kept], ends[kept]).tolist())
