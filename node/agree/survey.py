"""The sums over a node's own rows by which a swarm agrees on scales and lists: counts, sums, squares.

Every row adds a vector of numbers from -1 to 1, each rounded to a public unit before the addition: so the
sums of two data sets that differ in one row differ by exactly that row's vector, whose L2 norm is at most
`norm`. By part of the schema, in its order:

- all rows: 1
- number, date, time, a numeric target: 1, u, u^2, where u = (value - middle) / half of the public
  range; 0 for a missing value
- yes or no: 1 if there is a value
- category: 1 for its value, if the list has it
- an array's values: the row's means of u and of u^2, for each number of mean and std
- a target of up to 100 classes: 1 for its class

With `agreement.leave_out_missing` each column has one more number at the end, which no row moves: 0, or the
most records of a peer if this peer's file lacks the column.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from node.data.columns import Floats
from node.data.csv_and_parquet import fail
from node.data.encoding import (
    category_codes,
    category_words,
    number_values,
    target_values,
    targets,
    truth_values,
)
from node.data.npz import finite
from node.data.reading import Y, column_names, read_npz, read_table, read_with_schema
from node.errors import ConfigError, shown
from node.init.scaling import Range
from node.task.schema import (
    ArraySchema,
    BooleanColumn,
    CategoryColumn,
    ClassTarget,
    Column,
    NumberColumn,
    NumberTarget,
    Schema,
    TableSchema,
)
from node.task.sections import AgreementSection

Sums = NDArray[np.int64]
Ranged = NumberColumn | NumberTarget
_MOST_CLASSES = 100  # beyond that a class has few rows, and there are as many sums as classes
_NUMBER = 3  # sums of a column of numbers: how many there are, u, u^2


@dataclass(frozen=True)
class Part:
    """The position of one part's sums, and how many of them one row can move by 1 at once."""

    start: int
    width: int
    moved: int

    @property
    def place(self) -> slice:
        """The slice of this part in all sums."""
        return slice(self.start, self.start + self.width)


def parts(schema: Schema) -> tuple[Part, ...]:
    """Returns the parts: all rows, a numeric target, then each column, or each of an array's mean and std.

    Raises ConfigError for a schema without the public ranges that they need.
    """
    found: list[Part] = []
    for width, moved in _sizes(schema):
        start = found[-1].start + found[-1].width if found else 0
        found.append(Part(start, width, moved))
    if len(found) == 1:
        raise ConfigError("data.schema has no number and no category to agree on: learn with it as it is")
    return tuple(found)


def class_part(schema: Schema) -> Part | None:
    """Returns the part with the rows of each class, after all others; None for other targets."""
    target = schema.target
    if not isinstance(target, ClassTarget) or len(target.values) > _MOST_CLASSES:
        return None
    last = parts(schema)[-1]
    return Part(last.start + last.width, len(target.values), 1)


def absence_part(schema: Schema, section: AgreementSection) -> Part | None:
    """Returns the part, after all others, that says which columns a peer lacks; None if nobody asks."""
    if not section.leave_out_missing or not isinstance(schema, TableSchema):
        return None
    last = class_part(schema) or parts(schema)[-1]
    return Part(last.start + last.width, len(schema.columns), 0)


def _sizes(schema: Schema) -> Iterator[tuple[int, int]]:
    """Yields for each part the number of its sums, and how many of them a row moves."""
    yield 1, 1
    if isinstance(schema.target, NumberTarget):
        range_of(schema.target)
        yield _NUMBER, _NUMBER
    match schema:
        case TableSchema():
            for column in schema.columns:
                yield _column(column)
        case ArraySchema(kind="array"):
            yield from ((2, 2) for _ in array_ranges(schema))


def _column(column: Column) -> tuple[int, int]:
    match column:
        case NumberColumn():
            range_of(column)
            return _NUMBER, _NUMBER
        case BooleanColumn():
            return 1, 1
        case CategoryColumn():
            return len(column.values), 1


def range_of(item: Ranged) -> Range:
    """Returns the public range of `item`; raises ConfigError if it has none."""
    if item.low is None or item.high is None:
        raise ConfigError(
            f"data.schema: {shown(item.name)} has no low and high, so nothing bounds what one row adds to a "
            "sum; give a public range, as python -m node.init --agree writes it"
        )
    return Range(item.low, item.high)


def array_ranges(schema: ArraySchema) -> tuple[Range, ...]:
    """Returns one range for each of mean and std; raises ConfigError if there is none."""
    if schema.low is None or schema.high is None:
        raise ConfigError(
            "data.schema has no low and high, so nothing bounds what one row adds to a sum; give a public "
            "range, as python -m node.init --agree writes it"
        )
    pairs = tuple(map(Range, schema.low, schema.high))
    return pairs * len(schema.mean) if len(pairs) == 1 else pairs


def norm(schema: Schema) -> float:
    """Returns the largest L2 norm of a row's vector."""
    classes = class_part(schema)
    return math.sqrt(sum(part.moved for part in parts(schema)) + (0 if classes is None else classes.moved))


def survey(path: Path, schema: Schema, unit: float, most: int, absent: Collection[str] | None = None) -> Sums:
    """Returns (d,) sums over a file's rows that have a target, in `unit`, a power of two up to 1.

    `absent`: the columns that the file lacks, to be marked (absent_columns); None: it must have them all.
    Raises ConfigError for a file that does not fit the schema or has more than `most` rows.
    """
    there = schema
    if isinstance(schema, TableSchema):
        there, sums = _having(schema, absent or ()), _table(path, schema, unit, absent or ())
    else:
        sums = _array(path, schema, unit)
    classes = class_part(schema)
    if classes is not None:
        labels = read_with_schema(path, there).y
        counts = np.bincount(labels, minlength=classes.width) * round(1 / unit)
        sums = np.concatenate([sums, counts.astype(np.int64)])
    rows = int(sums[0] * unit)
    if rows > most:
        raise ConfigError(
            f"data {shown(str(path))} has {rows} rows; allowed by agreement.records: at most {most}; raise "
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


def _table(path: Path, schema: TableSchema, unit: float, absent: Collection[str]) -> Sums:
    frame = read_table(path, _having(schema, absent))
    _, kept, _ = targets(schema, frame)
    one = round(1 / unit)
    found = [np.array([len(kept) * one])]
    if isinstance(schema.target, NumberTarget):
        values = target_values(schema.target, schema, frame)
        found.append(_moments(range_of(schema.target).scaled(values[kept]), unit))
    for column in schema.columns:
        if column.name in absent:
            found.append(np.zeros(_column(column)[0]))
            continue
        match column:
            case NumberColumn():
                found.append(
                    _moments(range_of(column).scaled(number_values(column, schema, frame)[kept]), unit)
                )
            case BooleanColumn():
                found.append(np.array([np.sum(~np.isnan(truth_values(column, schema, frame)[kept]))]) * one)
            case CategoryColumn():
                found.append(
                    _counts(category_codes(column, category_words(column, schema, frame))[kept], column) * one
                )
    return np.concatenate(found).astype(np.int64)


def _moments(scaled: Floats, unit: float) -> Sums:
    """Returns (3,): the number of values, their sum and the sum of squares, each rounded row by row."""
    there = scaled[~np.isnan(scaled)]
    return np.array([len(there) * round(1 / unit), _added(there, unit), _added(there * there, unit)])


def _added(values: Floats, unit: float) -> int:
    """Returns the sum of (n,) numbers from -1 to 1, each rounded to a whole number of units."""
    return int(np.rint(values / unit).astype(np.int64).sum())


def _counts(codes: NDArray[np.int64], column: CategoryColumn) -> Sums:
    size = len(column.values)
    return np.bincount(codes[codes >= 0], minlength=size + 1)[:size]


def _array(path: Path, schema: ArraySchema, unit: float) -> Sums:
    x, y = read_npz(schema, path)
    found = [np.array([len(x) * round(1 / unit)])]
    if isinstance(schema.target, NumberTarget):
        values = finite(path, schema.target.name or Y, y).astype(np.float64)
        found.append(_moments(range_of(schema.target).scaled(values), unit))
    own = len(schema.mean) > 1
    for place, extent in enumerate(array_ranges(schema)):
        rows = (x[:, place] if own else x).reshape(len(x), -1)
        means, squares = _row_means(rows, extent)
        found.append(np.array([_added(means, unit), _added(squares, unit)]))
    return np.concatenate(found).astype(np.int64)


def _row_means(rows: NDArray[np.generic], extent: Range, block: int = 4096) -> tuple[Floats, Floats]:
    """Returns (n,) means of u and (n,) means of u^2, over each of the rows (n, m)."""
    means, squares = np.empty(len(rows)), np.empty(len(rows))
    for start in range(0, len(rows), block):
        part = extent.scaled(rows[start : start + block].astype(np.float64))
        means[start : start + block] = part.mean(axis=1)
        squares[start : start + block] = (part * part).mean(axis=1)
    return means, squares
