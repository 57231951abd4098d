"""Reads all rows of a source, by the task's schema, or as plain numbers without one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from node.data.files.numeric_tables import read_table
from node.data.in_memory import IN_MEMORY, InMemory
from node.data.persons import refuse_persons
from node.data.report import Report
from node.data.rows import Labels, Rows
from node.data.sides import RowDraws
from node.system.errors import ConfigError, shown
from node.task.data_schema import Schema, TableSchema
from node.task.dialect import Cells, cells_text, described
from node.task.sections import Task

_MOST_CLASSES = 1_000_000


def read_source(path: Path, task: Task) -> Rows:
    """Reads the rows in `path`, a file or a folder; raises ConfigError."""
    schema = task.data.own_schema
    if schema is not None:
        from node.data.reading import read_with_schema  # noqa: PLC0415 - pyarrow and Pillow, only where needed

        return _with_dialect(read_with_schema(path, schema, drawing_of(task)), schema, task.data.cells)
    if path.is_dir() and not path.suffix:
        raise ConfigError(
            f"data folder {shown(str(path))} needs a task that says which classes there are and how large "
            "images are: python -m node.init makes one"
        )
    rows = read_table(path, task.data.features, task.data.target, drawing_of(task))
    return _understood(f"data file {shown(str(path))}", rows, task.train.counts)


def rows_in_memory(rows: InMemory, task: Task) -> Rows:
    """Returns rows in memory by the rules for a file with the same rows: arrays for an npz."""
    drawing = drawing_of(task)
    if isinstance(rows, Rows):
        refuse_persons(drawing, IN_MEMORY)
        y = rows.y.astype(np.float64)
        plain = replace(rows, y=y, draws=drawing.of_arrays(rows.x, y))
    else:
        from node.data.data_frames import encoded_frame, plain_frame  # noqa: PLC0415 - pyarrow

        schema = task.data.own_schema
        if isinstance(schema, TableSchema):
            return _with_dialect(encoded_frame(rows, schema, drawing), schema, task.data.cells)
        plain = plain_frame(rows, task, drawing)
    return _understood("data", plain, task.train.counts)


def drawing_of(task: Task) -> RowDraws:
    """Returns what the task asks of each row: its draw, and whose it is."""
    return RowDraws(task.task.seed, task.data.person, blank_is_own=task.data.blank_person == "own")


def _understood(what: str, rows: Rows, counts: bool) -> Rows:
    """Returns rows without a schema whose targets are class numbers, if all are whole, or numbers.

    `what` names the rows in errors. `counts`: whether whole numbers are counts, and no labels of classes.
    """
    target, *features = rows.report.entries
    y: Labels = rows.y.astype(np.float32)
    if not counts and np.all(rows.y == np.floor(rows.y)):
        for label in (rows.y.min(), rows.y.max()):
            if not 0 <= label < _MOST_CLASSES:
                raise ConfigError(
                    f"{what}: target {shown(target.column)} holds the label {label:.0f}; "
                    f"allowed: 0 to K-1, K at most {_MOST_CLASSES} (whole numbers are read as class labels)"
                )
        y = rows.y.astype(np.int64)
    rows = replace(rows, y=y)
    kind = "any number" if rows.classes is None else f"classes 0 to {rows.classes - 1}"
    content = f"{rows.report.headline}, target {shown(target.column)} ({kind})"
    return replace(rows, report=Report(content, (replace(target, remark=kind), *features), ()))


def _with_dialect(rows: Rows, schema: Schema, cells: Cells | None) -> Rows:
    """Returns rows with a first remark on how their cells are written, if that is not as programs write."""
    told = described(schema.written) if isinstance(schema, TableSchema) else ""
    if cells is not None:
        told = f"{told or 'the marks that programs write'}; of this, --cells says {cells_text(cells)}"
    if not told:
        return rows
    remarks = (f"written, as the task says, with: {told}", *rows.report.remarks)
    return replace(rows, report=replace(rows.report, remarks=remarks))
