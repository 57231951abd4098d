"""A sweep as one tidy table: a row for each arm, seed and round (Wickham 2014, "Tidy Data", section 2.3).

    arm | factors ... | seed | round | figure | series ... | seconds | clock | facts ...

A column that some arms have no value for is null there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from scenarios.study.arms import Factors
from scenarios.study.cells import Outcome

CSV, PARQUET = "results.csv", "results.parquet"
KEYS = ("arm", "seed", "round", "figure", "seconds", "clock")
"""The columns of every frame; `clock`, the seconds until the end of a round, only where they are known."""

Row = Mapping[str, Any]


def frame_of(
    factors: Mapping[str, Factors], seeds: Sequence[int], outcomes: Mapping[str, Sequence[Outcome]]
) -> pa.Table:
    """The tidy table of all `outcomes`, which are by arm, one per seed; `factors` are by arm.

    A series with one number per round is a column; other series are left out. Facts and seconds are those of
    the whole cell and repeat in each of its rows. A factor with the name of a column that every frame has is
    called `NAME (factor)`, a fact with such a name or that of a factor `NAME (fact)`. A column is of numbers,
    truth values or text; mixed values become text.
    """
    own = [name for known in factors.values() for name in known]
    facts = [name for cells in outcomes.values() for cell in cells for name in (*cell.series, *cell.facts)]
    named = _named(own, "factor", KEYS)
    named_facts = _named(facts, "fact", (*KEYS, *named.values()))
    rows = [
        row
        for arm, cells in outcomes.items()
        for seed, outcome in zip(seeds, cells, strict=True)
        for row in _rows(arm, _renamed(factors.get(arm, {}), named), seed, outcome, named_facts)
    ]
    order = ("arm", *named.values(), *KEYS[1:], *named_facts.values())
    there = {name for row in rows for name in row}
    return pa.table({name: _column([row.get(name) for row in rows]) for name in order if name in there})


def _named(names: Iterable[str], kind: str, taken: Sequence[str]) -> dict[str, str]:
    """The column of each name, in the order of their first appearance."""
    return {name: f"{name} ({kind})" if name in taken else name for name in names}


def _renamed(values: Mapping[str, Any], named: Mapping[str, str]) -> Row:
    return {named[name]: value for name, value in values.items()}


def _rows(arm: str, own: Row, seed: int, outcome: Outcome, named: Mapping[str, str]) -> Iterable[Row]:
    """One row per round."""
    rounds = len(outcome.figures)
    by_round = {name: row for name, row in outcome.series.items() if len(row) == rounds}
    facts = _renamed(outcome.facts, named)
    for index, figure in enumerate(outcome.figures):
        series = {named[name]: row[index] for name, row in by_round.items()}
        point = {"seed": seed, "round": index + 1, "figure": figure, "seconds": outcome.seconds}
        if len(outcome.clock) == rounds:
            point["clock"] = outcome.clock[index]
        yield {"arm": arm, **own, **point, **facts, **series}


def _column(values: Sequence[Any]) -> pa.Array:
    """Values of one kind as they are, whole numbers among others as numbers, and mixed kinds as text."""
    there = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in there):
        return pa.array(values, pa.bool_())
    if all(isinstance(value, int) and not isinstance(value, bool) for value in there):
        return pa.array(values, pa.int64())
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in there):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def write_frame(folder: Path, frame: pa.Table) -> None:
    """Write `frame` to results.csv and results.parquet in `folder`; each is complete or does not exist."""
    for name, write in ((CSV, pyarrow.csv.write_csv), (PARQUET, pyarrow.parquet.write_table)):
        partial = folder / f"{name}.partial"
        write(frame, str(partial))
        partial.replace(folder / name)
