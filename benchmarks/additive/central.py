"""The private additive model as its design simulated it: one program with all rows, and no words or nodes.

    two histograms with noise      a share of epsilon and of delta; cells of equal rows from them
    steps with noise               the rest of epsilon, and delta; a row's cells are 1 / sqrt(columns + 1)

Noise is a generator's, and as large as members add together of whom each takes HONEST others as honest. So it
says what a number of cells, a rate or a share of the budget gives, in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from mechanisms.accounting.ledger import releases_noise_multiplier, sampled_noise_multiplier
from mechanisms.updates.distributed import charged_steps
from node.jobs.additive.cells import share_of_rest
from node.task.step_defaults import cells_under_noise, step_defaults
from scenarios.data.tables import Column, Table
from scenarios.tables.models import DELTA, HONEST
from scenarios.tables.sites import SITES, Split

Doubles = NDArray[np.float64]

MEMBERS = math.sqrt(SITES / (HONEST + 1))
"""How many times a server's noise the members' is."""
_EVEN, _HALVINGS, _AGAIN, _SURE = 64, 11, 64, 3
_LEAST_ROWS = 5  # of a category
_MOMENTUM = 0.9


@dataclass(frozen=True)
class Setting:
    """What is compared. `cells`: at most so many for the values of a column of numbers; 0: a straight line.

    `factor`: of the rate that the table of defaults has for rows and epsilon. `share`: of the budget, for the
    histograms.
    """

    cells: int
    factor: float
    share: float = 0.1


DESIGN = Setting(cells=16, factor=8)
"""What the goals were measured with."""
LOGISTIC = Setting(cells=0, factor=1, share=0)


def compared(split: Split, epsilon: float) -> dict[str, Setting]:
    """Return by name what is compared: numbers of cells with the table's rate, and of them the rule's."""
    rule = cells_under_noise(sum(map(len, split.sites)), epsilon)
    factor = (len(split.test.columns) + 1) / 2
    by_rule = Setting(rule, factor)
    return {
        "logistic": LOGISTIC,
        **{f"{cells} cells": Setting(cells, factor) for cells in (4, 8, 16)},
        f"{rule} cells, as the rule says": by_rule,
        "half the rate": replace(by_rule, factor=factor / 2),
        "twice the rate": replace(by_rule, factor=factor * 2),
        "twice the share": replace(by_rule, share=0.2),
    }


@dataclass(frozen=True)
class Rows:
    """`places` (n, k) of parameters that a row has `value` at; `lines` (n, m) are those before them."""

    places: NDArray[np.int64]
    value: float
    lines: Doubles
    size: int

    def at(self, some: NDArray[np.int64]) -> Rows:
        """Return some of the rows."""
        return Rows(self.places[some], self.value, self.lines[some], self.size)

    def scores(self, weights: Doubles) -> Doubles:
        """Return the scores (n,) by weights (size,)."""
        found: Doubles = self.lines @ weights[: self.lines.shape[1]] + self.value * weights[self.places].sum(
            1
        )
        return found

    def gradient(self, errors: Doubles, clip: float) -> Doubles:
        """Return the sum (size,) of the rows' gradients for errors (n,), each clipped in L2."""
        norms = np.abs(errors) * np.sqrt(self.places.shape[1] * self.value**2 + np.square(self.lines).sum(1))
        kept = errors * np.minimum(1, clip / np.maximum(norms, 1e-12))
        repeated = np.repeat(kept * self.value, self.places.shape[1])
        found = np.bincount(self.places.ravel(), repeated, minlength=self.size).astype(np.float64)
        found[: self.lines.shape[1]] += self.lines.T @ kept
        return found


@dataclass(frozen=True)
class Coding:
    """By column of numbers its mean and SD, or by any column its rising edges, or its categories."""

    lines: Mapping[str, tuple[float, float]]
    cells: Mapping[str, Column]
    value: float

    def rows(self, table: Table) -> Rows:
        """Return the rows of a table: no line where a number is missing, and a last cell of each column."""
        count, size = len(table), len(self.lines)
        lines, places = np.zeros((count, size)), []
        for place, (name, (mean, std)) in enumerate(self.lines.items()):
            scores = (table.columns[name].astype(np.float64) - mean) / std
            lines[:, place] = np.clip(np.nan_to_num(scores), -10, 10)
        for name, known in self.cells.items():
            places.append(size + _cell(table.columns[name], known))
            size += len(known) + 2
        return Rows(np.stack([*places, np.full(count, size)], 1), self.value, lines, size + 1)


def central_auc(split: Split, epsilon: float, setting: Setting, seed: int) -> float:
    """Return the AUC of the test rows by a model that learns from the rows of all sites."""
    rng, pooled = np.random.default_rng(seed), split.pooled_rows
    coding = _coding(pooled, epsilon, setting, rng)
    positive = np.unique(pooled.y)[1]
    answers = (pooled.y == positive).astype(np.float64)
    weights = _learnt(coding.rows(pooled), answers, epsilon, setting, rng)
    return float(roc_auc_score(split.test.y == positive, coding.rows(split.test).scores(weights)))


def _learnt(
    rows: Rows, answers: Doubles, epsilon: float, setting: Setting, rng: np.random.Generator
) -> Doubles:
    """Return the average of the iterates, as nodes take it."""
    count = len(answers)
    defaults = step_defaults(count, epsilon, frozen_body=False)
    batch, steps, clip = defaults.expected_batch, defaults.steps, defaults.clipping_radius
    left = (1 - setting.share) * epsilon
    std = MEMBERS * clip * sampled_noise_multiplier(left, DELTA, batch / count, charged_steps(steps))
    weights, speed, average = np.zeros(rows.size), np.zeros(rows.size), np.zeros(rows.size)
    for step in range(1, steps + 1):
        sample = np.flatnonzero(rng.random(count) < batch / count)
        some = rows.at(sample)
        errors = 1 / (1 + np.exp(-some.scores(weights))) - answers[sample]
        gradient = (some.gradient(errors, clip) + std * rng.normal(size=rows.size)) / batch
        speed = _MOMENTUM * speed + gradient
        weights = weights - setting.factor * defaults.learning_rate * speed
        kept = min(1 - 5 / steps, step / (9 + step))
        average = kept * average + (1 - kept) * weights
    return average


def _coding(table: Table, epsilon: float, setting: Setting, rng: np.random.Generator) -> Coding:
    numbers = {
        name: cells.astype(np.float64) for name, cells in table.columns.items() if cells.dtype.kind != "U"
    }
    words = {name: _categories(cells) for name, cells in table.columns.items() if name not in numbers}
    if not setting.cells:
        lines = {name: (float(np.nanmean(cells)), float(np.nanstd(cells))) for name, cells in numbers.items()}
        return Coding(lines, words, 1.0)
    budget = setting.share * epsilon, setting.share * DELTA
    std = MEMBERS * math.sqrt(len(numbers)) * releases_noise_multiplier(*budget, 2)
    edges = {
        name: _edges(cells[~np.isnan(cells)], setting.cells, std, rng) for name, cells in numbers.items()
    }
    return Coding({}, {**edges, **words}, 1 / math.sqrt(len(table.columns) + 1))


def _cell(cells: Column, known: Column) -> NDArray[np.int64]:
    """Return the cell of each row: by edges or categories, then the others, then the missing ones."""
    if known.dtype.kind != "U":
        return np.where(np.isnan(cells), len(known) + 1, np.searchsorted(known, cells, side="right"))
    found = np.minimum(np.searchsorted(known, cells), len(known) - 1)
    return np.where(known[found] == cells, found, len(known) + (cells == ""))


def _categories(cells: Column) -> Column:
    values, counts = np.unique(cells, return_counts=True)
    found: Column = values[(counts >= _LEAST_ROWS) & (values != "")]
    return found


def _edges(values: Doubles, most: int, std: float, rng: np.random.Generator) -> Doubles:
    """Return the rising edges of at most `most` cells, from two histograms with noise of this SD."""
    low, width = values.min(), (values.max() - values.min()) / _EVEN
    halved = low + width * 0.5 ** np.arange(_HALVINGS, 0, -1)
    grid = np.concatenate([[low], halved, low + width * np.arange(1, _EVEN + 1)])
    rows = _noised(values, grid, std, rng)
    heavy = rows > max(_SURE * std, share_of_rest(rows, most)[1] / 2)
    times = np.where(heavy, max(1, _AGAIN // max(1, heavy.sum())), 1)
    parts = [np.linspace(grid[at], grid[at + 1], time, endpoint=False) for at, time in enumerate(times)]
    finer = np.append(np.concatenate(parts), grid[-1])
    again = _noised(values, finer, std, rng)
    return _even_edges(finer, np.where(np.repeat(heavy, times), again, np.repeat(rows, times)), most, std)


def _even_edges(grid: Doubles, rows: NDArray[np.int64], most: int, std: float) -> Doubles:
    """Return edges between pieces, so that a cell has its share of the rows, and more than its noise."""
    heavy, share = share_of_rest(rows, most)
    edges, held = [], 0
    for place, count in enumerate(rows[:-1]):
        held += count
        is_full = held >= share or heavy[place] or heavy[place + 1]
        if is_full and held > _SURE * std and rows[place + 1 :].sum() > _SURE * std:
            edges.append(grid[place + 1])
            held = 0
    return np.array(edges[: most - 1])


def _noised(values: Doubles, grid: Doubles, std: float, rng: np.random.Generator) -> NDArray[np.int64]:
    counts = np.histogram(values, grid)[0]
    return np.rint(np.maximum(0, counts + std * rng.normal(size=len(counts)))).astype(np.int64)
