"""Data of a user's own under a schema: which reader, and what the schema asks of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from node.columns import number
from node.encoding import Encoded, check_size, class_counts, class_number, encode, standardise
from node.errors import ConfigError, reason, shown
from node.formats import kind_of
from node.frames import fail, read_frame
from node.npz import finite, read_arrays
from node.pictures import read_images
from node.report import Entry
from node.schema import ArraySchema, ClassTarget, Schema, TableSchema

X, Y = "x", "y"
_UNREADABLE = (OSError, EOFError, ValueError, MemoryError, RuntimeError)


def read_with_schema(path: Path, schema: Schema) -> Encoded:
    """The rows of `path`, encoded; ConfigError, one line, for what does not fit."""
    match schema:
        case TableSchema():
            _expect(path, "table", kind_of(path) in {"table", "parquet"}, ".csv, .tsv, .txt or .parquet")
            names = [schema.target.name or "", *(column.name for column in schema.columns)]
            return encode(schema, read_frame(path, names))
        case ArraySchema() if schema.kind == "images":
            _expect(
                path, "images", path.is_dir() or not path.exists(), "a folder with a folder for each class"
            )
            return read_images(schema, path)
        case ArraySchema():
            _expect(path, "array", kind_of(path) == "npz", ".npz")
            return _read_npz(schema, path)


def _expect(path: Path, kind: str, fits: bool, allowed: str) -> None:
    if not fits:
        raise ConfigError(
            f"data {shown(str(path))} does not fit data.schema.kind = {kind!r}; allowed: {allowed}"
        )


def _read_npz(schema: ArraySchema, path: Path) -> Encoded:
    name = schema.target.name or Y
    try:
        arrays = read_arrays(path, (X, name))
    except _UNREADABLE as error:
        fail(path, f" can not be read: {reason(error)}")
    x, y = arrays[X], arrays[name]
    if x.shape[1:] != schema.shape or y.shape != x.shape[:1]:
        fail(
            path,
            f": {X} is {x.shape} and {name} is {y.shape}; allowed by data.schema.shape: "
            f"{('n', *schema.shape)} and (n,)".replace("'", ""),
        )
    if len(x) < 2:
        fail(path, f" has {len(x)} rows; at least 2 are needed, to train and to validate")
    check_size(path, len(x), schema.shape)
    rows = finite(path, X, x).astype(np.float32)
    standardise(rows, schema)
    labels, remark = _labels(schema, path, name, y)
    entries = (Entry(name, f"target, {schema.target.kind}", remark), Entry(X, str(x.dtype), "mean and std"))
    return Encoded(rows, labels, entries, ())


def _labels(
    schema: ArraySchema, path: Path, name: str, y: NDArray
) -> tuple[NDArray[np.int64] | NDArray[np.float32], str]:
    target = schema.target
    if not isinstance(target, ClassTarget):
        values = finite(path, name, y)
        return ((values - target.mean) / target.std).astype(np.float32), "learned as (value - mean) / std"
    words, places = np.unique(y, return_inverse=True)
    table = [class_number(target, label_word(word)) for word in words]
    if -1 in table:
        bad = label_word(words[table.index(-1)])
        fail(
            path,
            f", array {shown(name)}: {shown(bad)} is no class of the task; allowed: "
            f"{shown(', '.join(target.values))}; mend it, or have it added to the schema by all",
        )
    labels = np.array(table, np.int64)[places]
    return labels, class_counts(target, labels)


def label_word(label: object) -> str:
    """A label of an npz as text: whole numbers without a point."""
    text = label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label).strip()
    value = number(text)
    return str(int(value)) if value is not None and value.is_integer() else text
