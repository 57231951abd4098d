"""A task's schema as columns with public ranges, and a member's file as their rows."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

import numpy as np

from node.data.encoding import (
    category_codes,
    category_words,
    class_number,
    number_values,
    target_values,
    target_words,
    truth_values,
)
from node.data.files.csv_and_parquet import Frame, fail
from node.data.reading import read_table
from node.data.text.columns import Words
from node.jobs.exact_arithmetic import Doubles
from node.jobs.statistics.columns import Category, Column, Number, Table
from node.system.errors import ConfigError, shown
from node.task.agreed_sums import range_of
from node.task.data_schema import (
    BooleanColumn,
    CategoryColumn,
    ClassTarget,
    NumberColumn,
    Schema,
    TableSchema,
    Target,
    VectorColumn,
)


def columns_of(schema: Schema) -> dict[str, Column]:
    """Returns the columns by name, the target's last, without texts and embeddings.

    Raises ConfigError for a number without a public range.
    """
    table = _table_schema(schema)
    target, columns = table.target, table.columns
    scalar = [item for item in columns if not isinstance(item, VectorColumn)]
    return {item.name or "": _column(item) for item in (*scalar, target)}


def _column(item: NumberColumn | BooleanColumn | CategoryColumn | Target) -> Column:
    name = item.name or ""
    match item:
        case BooleanColumn():
            return Category(name, ("no", "yes"))
        case CategoryColumn() | ClassTarget():
            return Category(name, item.values)
    extent = range_of(item)
    return Number(name, extent.low, extent.high)


def read_rows(path: Path, schema: Schema, of_two: Container[str] = ()) -> Table:
    """Returns the rows of a file. A value that a category's list lacks counts as missing.

    `of_two`: the columns in which it is refused. Raises ConfigError for that, and for a file that does not
    fit the schema.
    """
    table = _table_schema(schema)
    frame = read_table(path, table)
    found: dict[str, Doubles] = {}
    for column in table.columns:
        match column:
            case NumberColumn():
                found[column.name] = number_values(column, table, frame)
            case BooleanColumn():
                found[column.name] = truth_values(column, table, frame)
            case CategoryColumn():
                words = category_words(column, table, frame)
                codes = category_codes(column, words)
                found[column.name] = np.where((codes < 0) | (codes == len(column.values)), np.nan, codes)
                if column.name in of_two:
                    _check_listed(frame, column, words, found[column.name])
    target = table.target
    if isinstance(target, ClassTarget):
        words = target_words(target, table.written, frame)
        found[target.name or ""] = _classes(target, words)
        if target.name in of_two:
            _check_listed(frame, target, words, found[target.name or ""])
    else:
        found[target.name or ""] = target_values(target, table, frame)
    return found


def _check_listed(frame: Frame, column: CategoryColumn | ClassTarget, words: Words, values: Doubles) -> None:
    """Raises ConfigError for the first row with a word that is none of the column's two."""
    odd = np.flatnonzero(np.isnan(values) & ~words.missing)
    if len(odd):
        row = int(odd[0])
        word = words.words[int(words.codes[row])]
        where = f", row {row + 1}, column {shown(column.name)}: {shown(word)}"
        one, other = map(shown, column.values)
        fail(frame.path, f"{where} is neither {one} nor {other}; mend it, or leave the cell empty")


def _classes(target: ClassTarget, words: Words) -> Doubles:
    numbers = [class_number(target, word) for word in words.words]
    places = np.array([*numbers, -1])[words.codes]
    return np.where(places < 0, np.nan, places)


def _table_schema(schema: Schema) -> TableSchema:
    if not isinstance(schema, TableSchema):
        raise ConfigError("data.schema.kind is no table; statistics are of tables: give a task of one")
    return schema
