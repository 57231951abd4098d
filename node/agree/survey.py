"""The sums over a node's own rows by which a swarm agrees on scales and lists: counts, sums, squares.

Every row adds a vector of numbers from -1 to 1 (node.task.agreed_sums), each rounded to a public unit before
the addition: so the sums of two data sets that differ in one row differ by exactly that row's vector, whose
L2 norm is at most `norm`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
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
from node.task.agreed_sums import array_ranges, class_part, range_of, sums_of
from node.task.scaling import Range
from node.task.schema import (
    ArraySchema,
    BooleanColumn,
    CategoryColumn,
    NumberColumn,
    NumberTarget,
    Schema,
    TableSchema,
)
from node.task.sections import AgreementSection

Sums = NDArray[np.int64]


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
            found.append(np.zeros(sums_of(column)[0]))
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
