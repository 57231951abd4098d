"""Tables as short specifications: a row for each arm, or a row and a column for each selection.

tables=tabled(
    Grid("Accuracy", "defence", rows={"median": {"defence": "median"}}, columns={"20 %": {"share": 0.2}}),
    ArmTable("Arms", {"arm": ARM, "accuracy": share(), "epsilon": number("epsilon")}),
)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from scenarios.frame.spec import Table
from scenarios.study.arms import Where, level_text
from scenarios.study.charts import accuracy_text, amount
from scenarios.study.plots import Text, given
from scenarios.study.sweep import FINAL, Sweep

Cells = Callable[[Sweep, str], str]
"""What a column shows of an arm."""


class Specified(Protocol):
    """A specification of a table."""

    def table(self, sweep: Sweep) -> Table:
        """The table; without rows if its arms were not run."""


def tabled(
    *specifications: Specified | Callable[[Sweep], Table],
) -> Callable[[Sweep], tuple[Table, ...]]:
    """The tables that these specifications or functions make of a sweep, without those that have no rows."""

    def made(sweep: Sweep) -> tuple[Table, ...]:
        found = (one(sweep) if callable(one) else one.table(sweep) for one in specifications)
        return tuple(table for table in found if table.rows)

    return made


# -- columns -----------------------------------------------------------------------------------------------


def name_of(sweep: Sweep, arm: str) -> str:
    """The name of the arm."""
    return arm


def share(fact: str = FINAL) -> Cells:
    """A share in per cent with its standard error."""
    return lambda sweep, arm: accuracy_text(sweep, arm, fact)


def mean(fact: str = FINAL, form: str = ".3f", times: float = 1.0) -> Cells:
    """The mean of a fact times a number, in Python's format; "" if it is no number."""

    def told(sweep: Sweep, arm: str) -> str:
        value = times * sweep.mean(arm, fact)
        return "" if math.isnan(value) else format(value, form)

    return told


def error(fact: str = FINAL, form: str = ".3f") -> Cells:
    """The standard error of `mean`."""
    return lambda sweep, arm: format(sweep.standard_error(arm, fact), form)


def number(*facts: str) -> Cells:
    """The first of these facts that an arm has, for its first seed, with at most four digits; else `none`."""
    return lambda sweep, arm: amount(
        next((found for fact in facts if (found := sweep.fact(arm, fact)) is not None), None)
    )


def words(fact: str, missing: str = "") -> Cells:
    """A fact that is text; `missing` without it."""
    return lambda sweep, arm: str(sweep.fact(arm, fact) or missing)


def factor(name: str, missing: str = "") -> Cells:
    """The value of a factor; `missing` without it."""
    return lambda sweep, arm: level_text(sweep.factors[arm].get(name, missing))


def seconds(sweep: Sweep, arm: str) -> str:
    """The mean of the seconds of an arm's cells."""
    outcomes = sweep.outcomes[arm]
    return f"{sum(outcome.seconds for outcome in outcomes) / len(outcomes):.1f}"


# -- a row for each arm ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArmTable:
    """A row for each arm of a selection; `only`: of those, the arms for which it is true.

    names: instead of `where`, a row for each name, with the first arm of its selection; that name is then in
    the first column, called `heading`, and the selections that no arm has are left out.
    """

    title: Text
    columns: Mapping[str, Cells]
    where: Where = field(default_factory=dict)
    only: Callable[[Sweep, str], bool] | None = None
    names: Mapping[str, Where] = field(default_factory=dict)
    heading: str = "arm"

    def table(self, sweep: Sweep) -> Table:
        """See Specified."""
        rows = (
            (name, *(told(sweep, arm) for told in self.columns.values()))
            for name, arm in self._named(sweep)
            if self.only is None or self.only(sweep, arm)
        )
        return Table(given(self.title, sweep), (self.heading, *self.columns), tuple(rows))

    def _named(self, sweep: Sweep) -> list[tuple[str, str]]:
        if not self.names:
            return [(arm, arm) for arm in sweep.outcomes if arm in sweep.select(self.where)]
        found = ((name, sweep.first(where)) for name, where in self.names.items())
        return [(name, arm) for name, arm in found if arm is not None]


def arms_rows(where: Where | None = None, title: str = "Arms") -> ArmTable:
    """A row for each arm: its figure with standard error, the stated epsilon and the proved one."""
    columns: Mapping[str, Cells] = {
        "accuracy": mean(form=".1%"),
        "± SE": error(form=".1%"),
        "epsilon stated": number("stated"),
        "epsilon proved": number("epsilon"),
        "delta": number("delta"),
        "s a cell": seconds,
    }
    return ArmTable(title, columns, where or {})


def usual_tables(sweep: Sweep) -> tuple[Table, ...]:
    """What a study shows that names no tables: its arms with their factors, figures, margins and epsilon."""
    names = dict.fromkeys(name for own in sweep.factors.values() for name in own)
    columns: Mapping[str, Cells] = {
        **{name: factor(name) for name in names},
        sweep.figure: lambda sweep, arm: f"{sweep.mean(arm):.4g}",
        "± margin": lambda sweep, arm: f"{sweep.margin(arm):.2g}",
        "epsilon spent": number("epsilon"),
        "seconds": seconds,
    }
    return (ArmTable("Arms", columns).table(sweep),)


def protection_rows(kinds: Mapping[str, Where]) -> ArmTable:
    """What each kind of arm protects, in a sentence. `kinds`: by name, of each the first arm counts."""
    columns = {"what is protected": words("protects"), "whom epsilon is for": words("unit", "nobody")}
    return ArmTable("What is protected", columns, names=kinds, heading="mechanism")


# -- a row and a column for each selection ------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """A row for each selection of `rows`, a column for each of `columns`: of both the first arm.

    Rows and columns without arms are left out. cells: what is shown of an arm, or by column.
    """

    title: Text
    heading: str
    rows: Mapping[str, Where]
    columns: Mapping[str, Where]
    cells: Cells | Mapping[str, Cells] = accuracy_text

    def table(self, sweep: Sweep) -> Table:
        """See Specified."""
        there = {
            name: where
            for name, where in self.columns.items()
            if any(sweep.first({**row, **where}) for row in self.rows.values())
        }
        made = (
            (name, *(self._cell(sweep, row, column) for column in there.items()))
            for name, row in self.rows.items()
        )
        rows = tuple(row for row in made if any(row[1:]))
        return Table(given(self.title, sweep), (self.heading, *there), rows)

    def _cell(self, sweep: Sweep, row: Where, column: tuple[str, Where]) -> str:
        name, where = column
        arm = sweep.first({**row, **where})
        told = self.cells if callable(self.cells) else self.cells[name]
        return "" if arm is None else told(sweep, arm)
