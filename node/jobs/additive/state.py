"""What a base of the additive model holds, and what its counts say about the cells of all columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from node.jobs import limbs
from node.jobs.additive.cells import (
    PIECES,
    ROWS_A_COEFFICIENT,
    SUMS,
    Counts,
    Grid,
    Singles,
    edges_of,
    grid_of,
)
from node.jobs.additive.newton import CodedRows
from node.jobs.additive.smoothing import Design, Fit, NewtonSums
from node.jobs.exact_arithmetic import Doubles, log, symmetric, total
from node.jobs.job import Words
from node.models.additive import Cells
from node.storage.vector_files import Floats
from node.system.errors import UserError
from node.task.table_models import LEVELS

UNIT = 2.0**-30
"""The unit of the slope and the deviance."""
_WORD_BITS = 30


@dataclass(frozen=True)
class Plan:
    """What all members know: the model's arguments, public ranges (low, high) of numbers, and the target.

    `columns` and `cells` are those of `Additive`. `ranges`: of each column of numbers, as rows encode them.
    `weights`: of each class; () for numbers. `least_rows`: how many rows of all members a cell has at least.
    `rows_a_value`: how many rows a member has at least for each value that sums of pairs of cells are about;
    0: there are no such sums.
    """

    columns: tuple[tuple[str, int], ...]
    cells: int
    ranges: tuple[tuple[float, float], ...]
    weights: tuple[float, ...]
    least_rows: int = 5
    rows_a_value: int = ROWS_A_COEFFICIENT

    @property
    def outputs(self) -> int:
        """One for numbers and two classes, else one for each class."""
        return len(self.weights) if len(self.weights) > 2 else 1

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """How many cells a column of numbers may have, the finest first."""
        return self.cells, *(level for level in LEVELS if level < self.cells)

    def curvature_unit(self, rows: int) -> float:
        """Returns the unit of X'WX: a power of two."""
        most = rows * max(self.weights) / 4 if self.weights else float(rows)
        return 2.0 ** (math.frexp(most)[1] - _WORD_BITS)


class Layout:
    """The parts of a base, and of the words of its sums, for cells as the model's `body` has them at most.

    `sums`: those of counts. `head`: the counts of generation 0 beside the pieces. `others`: the places of the
    cells that are no number's.
    """

    def __init__(self, plan: Plan, body: Cells) -> None:
        self.plan, self.columns, self.size = plan, body.columns, body.size
        self.numbers = body.numbers
        self.sums = SUMS if self.numbers else 1
        is_other = np.ones(body.size, bool)
        for column in self.numbers:
            is_other[column.start : column.start + plan.cells] = False
        self.others = np.flatnonzero(is_other)
        self.head = 1 + len(plan.levels) + len(plan.weights) + len(self.others)
        self._pieces = len(self.numbers) * PIECES
        self._counts = 2 * (self.head + self.sums * self._pieces)
        coefficients, lambdas = body.size + 1, len(self.columns) + len(self.numbers)
        self._widths = {
            "coefficients": coefficients,
            "before": coefficients,
            "errors": coefficients,
            "lambdas": lambdas,
        }
        self._fit = 4 * (sum(self._widths.values()) + 2) + 1

    @property
    def length(self) -> int:
        """d: the length of a base."""
        return self._counts + 1 + self.plan.outputs * self._fit

    @property
    def newton_words(self) -> int:
        """The words of a Newton sum, for one output."""
        size = self.size + 1
        return size * (size + 1) // 2 + limbs.LIMBS * (size + 1)

    def words(self, generation: int) -> int:
        """The words of the sum that follows a base of this generation."""
        if generation >= self.sums:
            return self.plan.outputs * self.newton_words
        return self._pieces + (self.head if generation == 0 else 0)

    def parameters(self, level: int) -> int:
        """The most coefficients with so many cells for a column of numbers."""
        return len(self.others) + len(self.numbers) * level + 1

    def counts(self, base: Floats) -> bytes:
        """Returns the part of a base with all counts."""
        return base[: self._counts].tobytes()

    def with_counts(self, base: Floats, generation: int, summed: Words) -> Floats:
        """Returns the base with the counts of a sum."""
        start = 2 * (self.head + generation * self._pieces) if generation else 0
        found = base.copy()
        found[start : start + 2 * len(summed)] = limbs.to_state(summed)
        return found

    def grids(self, counts: bytes, sums: int) -> list[Grid]:
        """Returns the grid of each column of numbers after so many sums of counts."""
        pieces = self._read(counts)[self.head :].reshape(self.sums, len(self.numbers), PIECES)[:sums]
        return [
            grid_of(low, high, pieces[:, column], self.plan.cells)
            for column, (low, high) in enumerate(self.plan.ranges)
        ]

    def head_of(self, counts: bytes) -> list[Counts]:
        """Returns the counts of generation 0: rows, refusals of each level, classes, other cells."""
        sizes = [1, len(self.plan.levels), len(self.plan.weights)]
        return np.split(self._read(counts)[: self.head], np.cumsum(sizes))

    @staticmethod
    def _read(counts: bytes) -> Counts:
        return limbs.counts_of(np.frombuffer(counts, np.float32))

    def has_fits(self, base: Floats) -> bool:
        """Whether a base is after all counts."""
        return bool(base[self._counts + 1 :].any())

    def steps(self, base: Floats) -> int:
        """Returns the number of Newton sums that a base has seen."""
        return int(base[self._counts])

    def fits(self, base: Floats, design: Design) -> list[Fit]:
        """Returns each output's fit."""
        parts = base[self._counts + 1 :].reshape(self.plan.outputs, self._fit)
        return [self._fit_of(part, design) for part in parts]

    def _fit_of(self, part: Floats, design: Design) -> Fit:
        numbers = limbs.doubles_of(part[:-1])
        sizes = dict.fromkeys(self._widths, design.size) | {"lambdas": len(design.penalties)}
        starts = dict(zip(self._widths, np.cumsum([2, *self._widths.values()]), strict=False))
        vectors = {name: numbers[start : start + sizes[name]] for name, start in starts.items()}
        return Fit(
            deviance=float(numbers[0]), dispersion=float(numbers[1]), is_over=bool(part[-1]), **vectors
        )

    def with_fits(self, base: Floats, steps: int, fits: Sequence[Fit]) -> Floats:
        """Returns the base with the fits after so many Newton sums."""
        found = base.copy()
        found[self._counts] = steps
        for fit, part in zip(fits, found[self._counts + 1 :].reshape(len(fits), self._fit), strict=True):
            padded = [
                np.pad(getattr(fit, name), (0, width - len(getattr(fit, name))))
                for name, width in self._widths.items()
            ]
            part[:-1] = limbs.to_state(np.concatenate([[fit.deviance, fit.dispersion], *padded]))
            part[-1] = fit.is_over
        return found


@dataclass(frozen=True, eq=False)
class Table:
    """What all counts say: `all_rows`, those of each class, the `edges` of each column of numbers.

    `rows` (size,): of each cell of the layout. `places` (p - 1,): the cells that have a coefficient. `codes`
    (size,): the place of each cell in its column's block of the design, the block's size if it has none.
    """

    all_rows: int
    classes: Counts
    edges: tuple[tuple[float, ...], ...]
    rows: Counts
    places: Counts
    codes: Counts
    design: Design

    @classmethod
    def of(cls, layout: Layout, counts: bytes) -> Table:
        """Returns it for all counts of a base. Raises UserError if the rows of a member are too few."""
        plan = layout.plan
        (all_rows,), refused, classes, others = layout.head_of(counts)
        level = next((level for level, times in zip(plan.levels, refused, strict=True) if not times), None)
        if level is None:
            raise UserError(
                "a member has fewer than three rows for each value of the additive model; leave out columns "
                "with many categories, or take model.class = 'node.models:Linear'"
            )
        rows = np.zeros(layout.size, np.int64)
        rows[layout.others] = others
        edges = []
        for column, grid in zip(layout.numbers, layout.grids(counts, layout.sums), strict=True):
            found, held = edges_of(grid, level, plan.least_rows)
            rows[column.start : column.start + len(held)] = held
            edges.append(tuple(found.tolist()))
        return cls(int(all_rows), classes, tuple(edges), rows, *_design(layout, rows))

    def first_scores(self, plan: Plan) -> list[float]:
        """Returns the base score of each output before any column adds to it."""
        if not plan.weights:
            return [0.0]
        weights = self.classes * np.array(plan.weights) + 0.5
        chosen = weights[1:] if plan.outputs == 1 else weights
        scores: list[float] = log(chosen / (total(weights) - chosen)).tolist()
        return scores

    def coded(self, places: Counts) -> CodedRows:
        """Returns rows by the places (n, columns) of their cells."""
        codes = [self.codes[places[:, column]] for column in range(places.shape[1])]
        return CodedRows(codes, self.design.blocks, self.design.size)

    def newton_sums(self, words: Words, unit: float) -> NewtonSums:
        """Returns an output's sums from its words; `unit`: that of X'WX."""
        size = self.design.size
        upper = size * (size + 1) // 2
        curvature = symmetric(words[:upper].view(np.int32).astype(np.float64) * unit, size)
        others = words[upper : upper + limbs.LIMBS * (size + 1)]
        numbers = limbs.to_numbers(limbs.limbs_of(others), UNIT)
        return NewtonSums(curvature, numbers[:-1], float(numbers[-1]), float(self.all_rows))

    def spread(self, coefficients: Doubles) -> Singles:
        """Returns (size,): the coefficient of each cell of the layout, 0 for cells that have none."""
        found = np.zeros(len(self.rows), np.float32)
        found[self.places] = coefficients[:-1]
        return found


def _design(layout: Layout, rows: Counts) -> tuple[Counts, Counts, Design]:
    """Returns the places and the codes of a table, and its design."""
    codes = np.empty(len(rows), np.int64)
    blocks: list[slice] = []
    ordered, places = [], []
    for column in layout.columns:
        has_value = rows[column.places] >= layout.plan.least_rows
        held = np.flatnonzero(has_value)
        codes[column.places] = np.where(has_value, np.cumsum(has_value) - 1, len(held))
        first = blocks[-1].stop if blocks else 0
        blocks.append(slice(first, first + len(held)))
        ordered.append(int((held < layout.plan.cells).sum()) if column.kind == "number" else 0)
        places.append(held + column.start)
    chosen = np.concatenate(places)
    return chosen, codes, Design(tuple(blocks), tuple(ordered), rows[chosen])
