"""The sums over a node's own rows by which a swarm agrees on scales and lists: counts, sums, squares.

Every row adds a vector of numbers from -1 to 1 (node.task.agreed_sums), each rounded to a public unit before
the addition: so the sums of two data sets that differ in one row differ by exactly that row's vector, whose
L2 norm is at most `norm`. Where a person is the unit of privacy, every person adds one such vector, part by
part the mean of the own rows' (mechanisms.person_means): all sums are then of persons.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mechanisms.person_means import person_means
from node.data.encoding import (
    category_codes,
    category_words,
    number_values,
    target_values,
    targets,
    truth_values,
)
from node.data.files.csv_and_parquet import fail
from node.data.files.npz import finite, persons_of_array
from node.data.persons import Persons, renumbered
from node.data.reading import Y, column_names, read_npz, read_table, read_with_schema
from node.data.sides import RowDraws
from node.data.text.columns import Floats
from node.system.errors import ConfigError, shown
from node.task.agreed_sums import array_ranges, class_part, range_of, sums_of
from node.task.data_schema import (
    ArraySchema,
    BooleanColumn,
    CategoryColumn,
    EmbeddingColumn,
    NumberColumn,
    NumberTarget,
    Schema,
    TableSchema,
    TextColumn,
)
from node.task.scaling import Range
from node.task.sections import AgreementSection

Sums = NDArray[np.int64]


def survey(
    path: Path,
    schema: Schema,
    unit: float,
    most: int,
    absent: Collection[str] | None = None,
    drawing: RowDraws | None = None,
) -> Sums:
    """Returns (d,) sums over a file's rows that have a target, in `unit`, a power of two up to 1.

    `drawing` asks whose rows they are, where a person is the unit of privacy; None: each row counts.
    `absent`: the columns that the file lacks, to be marked (absent_columns); None: it must have them all.
    Raises ConfigError for a file that does not fit the schema or has more than `most` rows.
    """
    there = schema
    if isinstance(schema, TableSchema):
        there, sums = _having(schema, absent or ()), _table(path, schema, unit, absent or (), drawing)
    else:
        sums = _array(path, schema, unit, drawing)
    classes = class_part(schema)
    if classes is not None:
        found = read_with_schema(path, there, drawing)
        counts = _Adding.of(unit, found.persons).counts(found.y.astype(np.int64), classes.width)
        sums = np.concatenate([sums, counts])
    rows = int(sums[0] * unit)
    if rows > most:
        what = "rows" if drawing is None else "persons"
        raise ConfigError(
            f"data {shown(str(path))} has {rows} {what}; allowed by agreement.records: at most {most}; raise "
            "it at all peers"
        )
    if isinstance(schema, TableSchema) and absent is not None:
        marks = [round(most / unit) if column.name in absent else 0 for column in schema.columns]
        sums = np.concatenate([sums, np.array(marks, np.int64)])
    return sums


def absent_columns(path: Path, schema: Schema, section: AgreementSection) -> frozenset[str] | None:
    """Returns the columns of the schema that a file lacks; None if they are not to be left out.

    Raises ConfigError for a file that cannot be read or lacks them all.
    """
    if not section.leave_out_missing or not isinstance(schema, TableSchema):
        return None
    names = frozenset(column.name for column in schema.columns)
    absent = names.difference(column_names(path, schema))
    if absent == names:
        fail(path, " has no column of the task's schema; name the columns as the task does")
    return absent


def _having(schema: TableSchema, absent: Collection[str]) -> TableSchema:
    return replace(schema, columns=tuple(column for column in schema.columns if column.name not in absent))


@dataclass(frozen=True)
class _Adding:
    """Adds up what rows, or persons, add, in whole units; `persons` (n,): numbers from 0, None: each row."""

    unit: float
    persons: NDArray[np.int64] | None

    @classmethod
    def of(cls, unit: float, persons: Persons | None, rows: NDArray[np.int64] | None = None) -> _Adding:
        """Returns it for all rows, or for some."""
        if persons is None:
            return cls(unit, None)
        return cls(unit, renumbered(persons.numbers if rows is None else persons.numbers[rows]))

    def numbers(self, values: Floats) -> int:
        """Returns the sum of (n,) numbers from -1 to 1, each rounded to a whole number of units."""
        if self.persons is None:
            return int(np.rint(values / self.unit).astype(np.int64).sum())
        nowhere = np.zeros(len(values), np.int64)
        return int(_means(nowhere, values, self.persons, 1, self.unit)[0])

    def counts(self, codes: NDArray[np.int64], size: int) -> Sums:
        """Returns how many have each of the codes (n,) below `size`; a negative one is no value."""
        there = (codes >= 0) & (codes < size)
        if self.persons is None:
            return np.bincount(codes[there], minlength=size) * round(1 / self.unit)
        return _means(np.where(there, codes, 0), there.astype(np.float64), self.persons, size, self.unit)

    def moments(self, scaled: Floats) -> Sums:
        """Returns (3,) for (n,) numbers: how many are not NaN, their sum, and the sum of their squares."""
        there = ~np.isnan(scaled)
        values = np.where(there, scaled, 0.0)
        return np.array([self.numbers(part) for part in (there.astype(np.float64), values, values * values)])


def _means(
    places: NDArray[np.int64], amounts: Floats, persons: NDArray[np.int64], size: int, unit: float
) -> Sums:
    """Returns (size,) sums: each of `persons` (n,) adds the mean of `amounts` (n,) at `places` (n,)."""
    found = person_means(places[:, None], amounts[:, None], persons, size, unit=unit, longest=1.0)
    return found.astype(np.int64)


def _table(
    path: Path, schema: TableSchema, unit: float, absent: Collection[str], drawing: RowDraws | None
) -> Sums:
    frame = read_table(path, _having(schema, absent), drawing)
    _, kept, _ = targets(schema, frame)
    add = _Adding.of(unit, frame.persons, kept)
    found = [np.array([add.numbers(np.ones(len(kept)))])]
    if isinstance(schema.target, NumberTarget):
        values = target_values(schema.target, schema, frame)
        found.append(add.moments(range_of(schema.target).scaled(values[kept])))
    for column in schema.columns:
        if column.name in absent:
            found.append(np.zeros(sums_of(column)[0]))
            continue
        match column:
            case NumberColumn():
                found.append(add.moments(range_of(column).scaled(number_values(column, schema, frame)[kept])))
            case BooleanColumn():
                truths = truth_values(column, schema, frame)[kept]
                found.append(np.array([add.numbers((~np.isnan(truths)).astype(np.float64))]))
            case CategoryColumn():
                codes = category_codes(column, category_words(column, schema, frame))[kept]
                found.append(add.counts(codes, len(column.values)))
            case TextColumn() | EmbeddingColumn():
                pass
    return np.concatenate(found).astype(np.int64)


def _array(path: Path, schema: ArraySchema, unit: float, drawing: RowDraws | None) -> Sums:
    x, y = read_npz(schema, path)
    add = _Adding.of(unit, persons_of_array(path, len(x), drawing))
    found = [np.array([add.numbers(np.ones(len(x)))])]
    if isinstance(schema.target, NumberTarget):
        values = finite(path, schema.target.name or Y, y).astype(np.float64)
        found.append(add.moments(range_of(schema.target).scaled(values)))
    own = len(schema.mean) > 1
    for place, extent in enumerate(array_ranges(schema)):
        rows = (x[:, place] if own else x).reshape(len(x), -1)
        means, squares = _row_means(rows, extent)
        found.append(np.array([add.numbers(means), add.numbers(squares)]))
    return np.concatenate(found).astype(np.int64)


def _row_means(rows: NDArray[np.generic], extent: Range, block: int = 4096) -> tuple[Floats, Floats]:
    """Returns (n,) means of u and (n,) means of u^2, over each of the rows (n, m)."""
    means, squares = np.empty(len(rows)), np.empty(len(rows))
    for start in range(0, len(rows), block):
        part = extent.scaled(rows[start : start + block].astype(np.float64))
        means[start : start + block] = part.mean(axis=1)
        squares[start : start + block] = (part * part).mean(axis=1)
    return means, squares
