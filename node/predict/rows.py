"""Reads rows for a trained model, with targets if the file has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from node.data.files.npz import array_names, finite, read_arrays
from node.data.files.numeric_tables import read_table
from node.data.rows import RowsToPredict
from node.system.errors import ConfigError, shown
from node.task.sections import Task

_WITHOUT_TARGETS = "x"


def read_rows(path: Path, task: Task, classes: int | None, row: tuple[int, ...]) -> RowsToPredict:
    """Reads the rows in `path` as the task reads its data; raises ConfigError unless they have shape `row`.

    If the file lacks the target's column, or array, the rows have no targets.
    """
    found = _read(path, task, classes, row)
    if found.x.shape[1:] != row:
        raise ConfigError(
            f"data file {shown(str(path))} has rows of shape {found.x.shape[1:]}; allowed: {row}, as the "
            "model was trained on"
        )
    return found


def _read(path: Path, task: Task, classes: int | None, row: tuple[int, ...]) -> RowsToPredict:
    schema = task.data.own_schema
    if schema is not None:
        from node.data.reading import read_rows_to_predict  # noqa: PLC0415 - pyarrow and Pillow: only here

        return read_rows_to_predict(path, schema)
    x, numbers = _npz(path, task) if path.suffix.lower() == ".npz" else _columns(path, task, row)
    return RowsToPredict(x, None if numbers is None else _targets(path, numbers, classes))


Read = tuple[NDArray[np.float32], NDArray | None]


def _columns(path: Path, task: Task, row: tuple[int, ...]) -> Read:
    """Reads a table's feature and target columns; if these do not give a row, all columns are features."""
    names = task.data.features
    try:
        table = read_table(path, names, task.data.target)
        if table.x.shape[1:] == row:
            return table.x, table.y
    except ConfigError:
        if task.data.target is None:
            raise
    if names is not None and len(names) > 1:  # the last one is read as if it were the target
        table = read_table(path, names[:-1], names[-1])
    else:
        table = read_table(path, None, names[0] if names else None)
    last = table.y.astype(np.float32)[:, None]
    return last if names is not None and len(names) == 1 else np.concatenate([table.x, last], 1), None


def _npz(path: Path, task: Task) -> Read:
    names = task.data.features
    x_name = (names or (_WITHOUT_TARGETS,))[0]
    if x_name not in (there := array_names(path)) or (task.data.target or "y") in there:
        table = read_table(path, names, task.data.target)
        return table.x, table.y
    return finite(path, x_name, read_arrays(path, (x_name,))[x_name]).astype(np.float32), None


def _targets(path: Path, y: NDArray, classes: int | None) -> NDArray[np.int64] | NDArray[np.float32]:
    if classes is None:
        return y.astype(np.float32)
    wrong = (y != np.floor(y)) | (y < 0) | (y >= classes)
    if wrong.any():
        raise ConfigError(
            f"data file {shown(str(path))} has label {y[wrong][0]:g}; allowed: 0 to {classes - 1}, as the "
            "model was trained on; take the target out to predict without metrics"
        )
    return y.astype(np.int64)
