"""The additive model as a job: cells by sums of counts, then curves by Newton sums, without noise.

    generation 0        all rows; those of each class and each other cell; levels that are too fine
    0 to SUMS - 1       counts of each column of numbers in its pieces (node.jobs.additive.cells)
    SUMS and on         X'WX, X'(y - mu), the deviance, for each output (node.jobs.additive.smoothing)

Two classes have one output, the logit of the second; more have one for each class against the rest. Numbers
have one, and take the normal distribution. An element of X'WX is one word: a whole number of the least unit
for which 30 bits hold the weight of all rows. The slope and the deviance may be larger and have limbs.

A cell that fewer than `least_rows` rows of all members have gets no value. A site takes part if it has
`LEAST_ROWS` rows, and three for each coefficient; all take coarser cells if these are enough.

A base is the counts of generation 0, those of the pieces, the number of Newton sums, and each output's `Fit`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Event
from node.jobs import limbs
from node.jobs.additive.cells import SUMS, Counts
from node.jobs.additive.newton import CodedRows, of_classes, of_numbers
from node.jobs.additive.smoothing import Fit
from node.jobs.additive.state import UNIT, Layout, Plan, Table
from node.jobs.exact_arithmetic import Doubles
from node.jobs.job import Contributed, Words
from node.models.additive import Additive, CellColumn, Cells
from node.storage.vector_files import Floats
from node.system.errors import UserError, counted
from protocol.wire.ids import Key

MOST_NEWTON_SUMS = 8
MOST_SUMS = SUMS + MOST_NEWTON_SUMS
"""All sums of a job, those of counts too."""
LEAST_ROWS = 20
"""The least rows of a site that takes part."""


def rows_needed(plan: Plan) -> int:
    """Returns how many rows a member needs."""
    coefficients = Layout(plan, Cells(plan.columns, plan.cells)).parameters(plan.levels[-1])
    return max(LEAST_ROWS, plan.rows_a_value * coefficients)


class AdditiveJob:
    """The job of a member with encoded rows `x` (n, features) float32, and their targets `y` (n,)."""

    def __init__(self, plan: Plan, x: torch.Tensor, y: NDArray[np.generic]) -> None:
        """Raises UserError if there are too few rows for any cells."""
        self._plan = plan
        self._body = Cells(plan.columns, plan.cells)
        self._x, self._y = x, y
        self._layout = Layout(plan, self._body)
        self._table = lru_cache(maxsize=1)(self._table_of)
        self._coded = lru_cache(maxsize=1)(self._coded_rows)
        least = rows_needed(plan)
        if len(x) < least:
            columns = counted(len(self._body.columns), "column")
            why = f", three for each value of its {columns}" if plan.rows_a_value else ""
            raise UserError(
                f"the model needs {least} rows here{why}; there are {len(x)}: "
                "give more rows, leave out columns, or take model.class = 'node.models:Linear'"
            )

    @property
    def length(self) -> int:
        """d: the length of a base."""
        return self._layout.length

    def words(self, generation: int) -> int:
        """Returns the words of the sum that follows a base of this generation."""
        return self._layout.words(generation)

    def cost(self, generation: int) -> tuple[Event, ...]:
        """Returns (): nothing has noise."""
        return ()

    def initial(self) -> Floats:
        """Returns base 0."""
        return np.zeros(self.length, np.float32)

    def is_over(self, base: Floats) -> bool:
        """Returns whether the curves of all outputs stand still, or the last sum is done."""
        steps = self._layout.steps(base)
        return steps >= MOST_NEWTON_SUMS or (steps > 0 and all(fit.is_over for fit in self._known(base)[1]))

    # -- one's own rows

    def contribution(self, base: Floats, generation: int) -> Contributed:
        """Returns this member's words: counts of its rows, or its part of a Newton sum."""
        if generation < self._layout.sums:
            return Contributed(self._counted(base, generation).astype(np.uint32))
        table, fits = self._known(base)
        found = [self._newton(table, fit, output) for output, fit in enumerate(fits)]
        words = np.concatenate([words for words, _ in found])
        loss = sum(deviance for _, deviance in found) / len(self._y)
        return Contributed(words, loss / 2 if self._plan.weights else loss)

    def _counted(self, base: Floats, generation: int) -> Counts:
        grids = self._layout.grids(self._layout.counts(base), generation)
        numbers = zip(self._body.numbers, grids, strict=True)
        pieces = [grid.cut(self._plan.cells).count(self._values(column)) for column, grid in numbers]
        if generation:
            return np.concatenate(pieces)
        rows = len(self._y)
        parameters = map(self._layout.parameters, self._plan.levels)
        places = self._body.places(self._x).numpy()
        cells = np.bincount(places.ravel(), minlength=self._body.size)
        classes = np.bincount(self._y, minlength=len(self._plan.weights)) if self._plan.weights else ()
        head = [
            [rows],
            [rows < self._plan.rows_a_value * size for size in parameters],
            classes,
            cells[self._layout.others],
        ]
        return np.concatenate([*head, *pieces]).astype(np.int64)

    def _values(self, column: CellColumn) -> NDArray[np.float32]:
        part = self._x[:, column.feature : column.feature + column.width].numpy()
        return part[part[:, 1] < 0.5, 0] if column.has_missing else part[:, 0]

    def _coded_rows(self, table: Table) -> CodedRows:
        places = Cells(self._plan.columns, self._plan.cells, table.edges).places(self._x).numpy()
        return table.coded(places)

    def _newton(self, table: Table, fit: Fit, output: int) -> tuple[Words, float]:
        rows = self._coded(table)
        scores = rows.scores(fit.coefficients)
        if self._plan.weights:
            chosen = 1 if self._plan.outputs == 1 else output
            weights = np.array(self._plan.weights)[self._y]
            curved, residuals, deviance = of_classes(scores, self._y == chosen, weights)
        else:
            curved, residuals, deviance = of_numbers(scores, self._y.astype(np.float64))
        upper = rows.curvature(curved)[np.triu_indices(rows.size)]
        whole = np.rint(upper / self._plan.curvature_unit(table.all_rows)).astype(np.int64)
        sloped = limbs.to_words(np.append(rows.slope(residuals), deviance), UNIT)
        words = np.zeros(self._layout.newton_words, np.uint32)
        words[: len(whole)] = whole
        words[len(whole) : len(whole) + len(sloped)] = sloped
        return words, deviance

    # -- what all compute alike

    def following(self, base: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """Returns the base after a sum. Raises UserError if a member has too few rows for any cells."""
        layout, plan = self._layout, self._plan
        if generation < layout.sums:
            after = layout.with_counts(base, generation, summed)
            if generation + 1 < layout.sums:
                return after
            table = self._table(layout.counts(after))
            first = [Fit.begin(table.design, score) for score in table.first_scores(plan)]
            return layout.with_fits(after, 0, first)
        table, fits = self._known(base)
        unit = plan.curvature_unit(table.all_rows)
        parts = summed.reshape(plan.outputs, layout.newton_words)
        found = [
            fit if fit.is_over else fit.after(table.design, table.newton_sums(part, unit), not plan.weights)
            for fit, part in zip(fits, parts, strict=True)
        ]
        return layout.with_fits(base, layout.steps(base) + 1, found)

    @property
    def body(self) -> Cells:
        """The columns with the places of their cells, whatever the edges of these."""
        return self._body

    @property
    def most_sums(self) -> int:
        """The most sums of the job."""
        return MOST_SUMS

    @property
    def round_sums(self) -> int:
        """How many sums are a round, as people count them."""
        return 1

    @property
    def count_sums(self) -> int:
        """The number of sums of counts, after which Newton sums come."""
        return self._layout.sums

    @property
    def purposes(self) -> tuple[tuple[str, int], ...]:
        """What its sums are for, each in a word, and how many."""
        return (("cells", self.count_sums), ("curves", MOST_NEWTON_SUMS))

    @property
    def course(self) -> str:
        """How many sums it makes, in words, for who is about to take part."""
        return f"{self.count_sums} for cells, then at most {MOST_NEWTON_SUMS} for curves"

    def made(self, base: Floats) -> str:
        """Returns nothing: there are curves alone."""
        return ""

    def all_rows(self, base: Floats) -> int:
        """Returns the rows of all members, from a base after all counts."""
        return self._known(base)[0].all_rows

    def scores(self, base: Floats, x: torch.Tensor) -> tuple[NDArray[np.int64], Doubles]:
        """Returns the cells (n, columns) of encoded rows x (n, features), and their scores (outputs, n).

        The base is one after all counts; cells are from 0 in each column.
        """
        table, fits = self._known(base)
        places = Cells(self._plan.columns, self._plan.cells, table.edges).places(x).numpy()
        rows = table.coded(places)
        starts = np.array([column.start for column in self._body.columns])
        return places - starts, np.stack([rows.scores(fit.coefficients) for fit in fits])

    def _known(self, base: Floats) -> tuple[Table, list[Fit]]:
        table = self._table(self._layout.counts(base))
        return table, self._layout.fits(base, table.design)

    def _table_of(self, counts: bytes) -> Table:
        return Table.of(self._layout, counts)

    def model(self, base: Floats) -> Additive:
        """Returns the model of a base: before all counts are there, nothing adds to a score."""
        plan = self._plan
        if not self._layout.has_fits(base):
            return Additive(plan.columns, plan.outputs, plan.cells, (), plan.outputs > 1)
        table, fits = self._known(base)
        found = Additive(plan.columns, plan.outputs, plan.cells, table.edges, plan.outputs > 1)
        values, errors = (
            np.stack([table.spread(getattr(fit, name)) for fit in fits])
            for name in ("coefficients", "errors")
        )
        scores = torch.tensor([fit.coefficients[-1] for fit in fits], dtype=torch.float32)
        found.set_curves(torch.from_numpy(values), scores)
        found.errors.copy_(torch.from_numpy(errors))
        found.rows.copy_(torch.from_numpy(table.rows))
        return found
