"""Data frames in memory: pandas, polars, Arrow, or whatever has `columns` and gives each by its name.

A frame is understood as a Parquet file with the same columns is, so its rows are trained on or held back as
those of the file. Labels may be text: a schema lists the classes; without one, the peers of one program list
all that they have, in alphabetical order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from node.data.encoding import class_number, encode
from node.data.files.csv_and_parquet import frame_of
from node.data.files.numeric_tables import table_of, target_in
from node.data.in_memory import IN_MEMORY, FrameRows, InMemory
from node.data.remedies import other_class
from node.data.rows import Rows
from node.data.sides import RowDraws
from node.data.text.columns import words_of
from node.system.errors import ConfigError, reason, shown
from node.task.data_schema import ClassTarget, TableSchema
from node.task.dialect import PLAIN
from node.task.sections import Task


def frame_rows(data: Any) -> FrameRows:
    """Returns a data frame's rows. Raises ConfigError for one that cannot be read."""
    if isinstance(data, pa.Table):
        return FrameRows(data)
    try:
        columns = {str(name): pa.array(np.asarray(data[name]), from_pandas=True) for name in data.columns}
        if len(columns) < len(data.columns):
            raise ValueError("two columns have the same name")
        return FrameRows(pa.table(columns))
    except Exception as error:  # noqa: BLE001 - whatever a frame of the user's raises
        raise ConfigError(
            f"data: the data frame cannot be read ({reason(error)}); allowed: columns of numbers, text, "
            "truth values and times"
        ) from None


def encoded_frame(rows: FrameRows, schema: TableSchema, drawing: RowDraws) -> Rows:
    """Returns the rows by a schema; raises ConfigError for data that do not fit."""
    wanted = [schema.target.name or "", *(column.name for column in schema.columns)]
    encoded = encode(schema, frame_of(rows.table, wanted, drawing, schema.written))
    return replace(encoded, label="a data frame")


def plain_frame(rows: FrameRows, task: Task, drawing: RowDraws) -> Rows:
    """Returns the rows of a frame of numbers, for a task without a schema; raises ConfigError."""
    frame = frame_of(rows.table, None, drawing)
    found = table_of(frame, task.data.features, task.data.target)
    return replace(found, label=IN_MEMORY, names=rows.names)


def labelled(parts: Sequence[InMemory], task: Task, *, together: bool) -> list[InMemory]:
    """Returns the rows with numbers in place of labels that are text.

    Without a schema the numbers follow from the labels of all parts, if these are all there are (`together`);
    else nobody knows what the others have, which is a ConfigError.
    """
    found = [_labels(part, task) for part in parts]
    there = [words for words in found if words is not None]
    if not there:
        return list(parts)
    target = None if task.data.schema is None else task.data.schema.target
    if isinstance(target, ClassTarget):
        return [
            part if words is None else _numbered(part, _by_schema(words, target), target.values, task)
            for part, words in zip(parts, found, strict=True)
        ]
    if len(there) < len(parts):
        raise ConfigError("data: some peers have labels that are text, others numbers; allowed: one of them")
    if not together:
        raise ConfigError(
            f"data: the label {shown(str(there[0][0]))} is text; its number depends on the labels of all "
            "peers: give whole numbers from 0, or a task with a schema, which python -m node.init makes"
        )
    names = np.unique(np.concatenate(there))
    return [
        _numbered(part, np.searchsorted(names, words), tuple(map(str, names)), task)
        for part, words in zip(parts, there, strict=True)
    ]


def _labels(part: InMemory, task: Task) -> NDArray[np.str_] | None:
    """Returns the labels (n,) if they are text that has to be numbered."""
    if isinstance(part, Rows):
        return part.y.astype(str) if part.y.dtype.kind == "U" else None
    if task.data.schema is not None:
        return None
    frame = frame_of(part.table, None)
    column = frame.columns[target_in(frame, task.data.target)]
    if not pa.types.is_dictionary(column.type):
        return None
    words = words_of(column, PLAIN)
    if words.missing.any():
        raise ConfigError(f"data: row {int(words.missing.argmax()) + 1} has no label; leave such rows out")
    return np.array(words.words, str)[words.codes]


def _by_schema(words: NDArray[np.str_], target: ClassTarget) -> NDArray[np.int64]:
    numbers = np.array([class_number(target, str(word)) for word in words], np.int64)
    if (numbers < 0).any():
        bad = str(words[numbers < 0][0])
        raise ConfigError(f"data: the label {shown(bad)} {other_class(target.values)}")
    return numbers


def _numbered(part: InMemory, numbers: NDArray[np.int64], names: tuple[str, ...], task: Task) -> InMemory:
    if isinstance(part, Rows):
        return replace(part, y=numbers.astype(np.float64), names=names)
    name = target_in(frame_of(part.table, None), task.data.target)
    place = part.table.column_names.index(name)
    return FrameRows(part.table.set_column(place, name, pa.array(numbers)), names)
