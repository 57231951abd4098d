"""Reads a user's own data by a schema: chooses the reader and checks the data against the schema."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from node.data.encoding import (
    check_size,
    class_counts,
    class_number,
    cut,
    encode,
    features,
    standardise,
    targets,
)
from node.data.files.csv_and_parquet import (
    TO_PREDICT,
    Frame,
    check_columns,
    fail,
    read_frame,
)
from node.data.files.formats import TABLES, kind_of
from node.data.files.npz import array_names, finite, labels, persons_of_array, read_arrays
from node.data.images import read_images, read_images_to_predict
from node.data.remedies import other_class
from node.data.report import Entry
from node.data.rows import Labels, Rows, RowsToPredict, encoded_rows
from node.data.sides import NOT_DRAWN, RowDraws
from node.data.text.cells import number
from node.data.text.columns import words_of
from node.system.errors import ConfigError, shown
from node.task.data_schema import ArraySchema, ClassTarget, Schema, TableSchema

X, Y = "x", "y"


def read_with_schema(path: Path, schema: Schema, drawing: RowDraws | None = None) -> Rows:
    """Returns the encoded rows of `path`; raises a one-line ConfigError for data that do not fit.

    `drawing` draws each row, and asks whose it is; None: nobody asked.
    """
    match schema:
        case TableSchema():
            return encode(schema, read_table(path, schema, drawing))
        case ArraySchema() if schema.kind == "images":
            _expect_images(path)
            return read_images(schema, path, drawing)
        case ArraySchema():
            return _encoded_npz(schema, path, drawing)


def read_table(path: Path, schema: TableSchema, drawing: RowDraws | None = None) -> Frame:
    """Returns the columns that the schema names, not encoded; ConfigError for data that do not fit."""
    _expect_table(path)
    names = [schema.target.name or "", *(column.name for column in schema.columns)]
    return read_frame(path, names, dialect=schema.written, drawing=drawing)


def column_names(path: Path, schema: TableSchema) -> list[str]:
    """Returns the names of a file's columns; ConfigError for another kind of file, or an unreadable one."""
    _expect_table(path)
    return list(read_frame(path, None, dialect=schema.written).columns)


def read_rows_to_predict(path: Path, schema: Schema) -> RowsToPredict:
    """Returns all rows of `path`, with targets if each has one; ConfigError for data that do not fit."""
    match schema:
        case TableSchema():
            return _table_to_predict(path, schema)
        case ArraySchema(kind="images"):
            _expect_images(path)
            return read_images_to_predict(schema, path)
        case ArraySchema() if (schema.target.name or Y) not in array_names(path):
            x = _fitting(schema, path, read_arrays(path, (X,))[X]).astype(np.float32)
            standardise(x, schema)
            return RowsToPredict(x, None)
    encoded = read_with_schema(path, schema)
    return RowsToPredict(encoded.x, encoded.y)


def _table_to_predict(path: Path, schema: TableSchema) -> RowsToPredict:
    _expect_table(path)
    frame = read_frame(path, None, TO_PREDICT, schema.written)
    check_columns(path, [*frame.columns, *frame.vectors], [column.name for column in schema.columns])
    x, _ = features(schema, frame)
    files = () if frame.texts is None else frame.texts.names
    return RowsToPredict(x, _known_targets(schema, frame), files)


def _known_targets(schema: TableSchema, frame: Frame) -> Labels | None:
    """Returns the target of each row; None unless each has one."""
    if schema.target.name not in frame.columns:
        return None
    listed = schema.target.written if isinstance(schema.target, ClassTarget) else ()
    missing = words_of(frame.columns[schema.target.name or ""], schema.written, listed).missing
    if missing.any() or frame.rows < 2:
        return None
    y, kept, _ = targets(schema, frame)
    return y if len(kept) == frame.rows else None


def _expect_table(path: Path) -> None:
    _expect(path, "table", kind_of(path) in TABLES, ".csv, .tsv, .txt, .xlsx, .parquet or a folder of texts")


def _expect_images(path: Path) -> None:
    _expect(path, "images", path.is_dir() or not path.exists(), "a folder with a folder for each class")


def _expect(path: Path, kind: str, fits: bool, allowed: str) -> None:
    if not fits:
        raise ConfigError(
            f"data {shown(str(path))} does not fit data.schema.kind = {kind!r}; allowed: {allowed}"
        )


def read_npz(schema: ArraySchema, path: Path) -> tuple[NDArray, NDArray]:
    """Returns x (n, ...) of finite numbers and y (n,), not encoded; ConfigError for data that do not fit."""
    _expect(path, "array", kind_of(path) == "npz", ".npz")
    name = schema.target.name or Y
    arrays = read_arrays(path, (X, name))
    x, y = arrays[X], arrays[name]
    if y.shape != x.shape[:1]:
        fail(path, f": {X} is {x.shape} and {name} is {y.shape}; allowed: as many targets as rows")
    if len(x) < 2:
        fail(path, f" has {len(x)} rows; at least 2 are needed, to train and to validate")
    return _fitting(schema, path, x), y


def _encoded_npz(schema: ArraySchema, path: Path, drawing: RowDraws | None) -> Rows:
    name = schema.target.name or Y
    x, y = read_npz(schema, path)
    rows = x.astype(np.float32)
    standardise(rows, schema)
    labels, remark = _labels(schema, path, name, y)
    entries = (Entry(name, f"target, {schema.target.kind}", remark), Entry(X, str(x.dtype), "mean and std"))
    draws = NOT_DRAWN if drawing is None else drawing.of_arrays(x, y)
    persons = persons_of_array(path, len(x), drawing)
    return encoded_rows(schema, path.name, rows, labels, entries, (), draws, persons)


def _fitting(schema: ArraySchema, path: Path, x: NDArray) -> NDArray:
    """Returns rows (n, ...); raises ConfigError unless they fit the schema and are finite."""
    if x.shape[1:] != schema.shape:
        shape = f"(n, {', '.join(map(str, schema.shape))})"
        fail(path, f": {X} is {x.shape}; allowed by data.schema.shape: {shape}")
    check_size(path, len(x), schema.shape)
    return finite(path, X, x)


def _labels(
    schema: ArraySchema, path: Path, name: str, y: NDArray
) -> tuple[NDArray[np.int64] | NDArray[np.float32], str]:
    target = schema.target
    if not isinstance(target, ClassTarget):
        values = cut(finite(path, name, y), target.low, target.high)
        return ((values - target.mean) / target.std).astype(np.float32), "learned as (value - mean) / std"
    words, places = np.unique(labels(path, name, y), return_inverse=True)
    table = [class_number(target, label_word(word)) for word in words]
    if -1 in table:
        bad = label_word(words[table.index(-1)])
        fail(
            path,
            f", array {shown(name)}: {shown(bad)} {other_class(target.values)}",
        )
    numbers = np.array(table, np.int64)[places]
    return numbers, class_counts(target, numbers)


def label_word(label: object) -> str:
    """Returns a label of an npz as text; whole numbers have no decimal point."""
    text = label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label).strip()
    value = number(text)
    return str(int(value)) if value is not None and value.is_integer() else text
