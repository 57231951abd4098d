"""Reads all rows of a source, by the task's schema, or as plain numbers without one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from node.data.files.numeric_tables import read_table
from node.data.in_memory import InMemory, Rows
from node.data.persons import Persons
from node.data.report import Entry, Report
from node.data.sides import Draws, RowDraws
from node.system.errors import ConfigError, counted, shown
from node.task.data_schema import ArraySchema, ClassTarget, Schema, TableSchema
from node.task.dialect import Cells, cells_text, described
from node.task.sections import Task

if TYPE_CHECKING:
    from node.data.encoding import Encoded

_MOST_CLASSES = 1_000_000


@dataclass(frozen=True)
class UnsplitRows:
    """All rows of a source, not yet partitioned: x (n, ...), y (n,) integers or floats."""

    x: NDArray[np.float32]
    y: NDArray[np.int64] | NDArray[np.float32]
    classes: int | None
    label: str
    """"digits", or the file's name."""
    content: str
    """A short description of the rows."""
    report: Report
    draws: Draws
    """The draw of each row under the task's seed: (n,)."""
    persons: Persons | None = None
    """The person of each row, where data.person names a column."""
    names: tuple[str, ...] = ()
    """Those of the classes, if no schema has them."""


def read_source(path: Path, task: Task) -> UnsplitRows:
    """Reads the rows in `path`, a file or a folder; raises ConfigError."""
    schema = task.data.own_schema
    if schema is not None:
        from node.data.reading import read_with_schema  # noqa: PLC0415 - pyarrow and Pillow, only where needed

        encoded = read_with_schema(path, schema, drawing_of(task))
        return _encoded_rows(path.name, schema, task.data.cells, encoded)
    if path.is_dir() and not path.suffix:
        raise ConfigError(
            f"data folder {shown(str(path))} needs a task that says which classes there are and how large "
            "images are: python -m node.init makes one"
        )
    rows = read_table(path, task.data.features, task.data.target, drawing_of(task))
    return _understood(f"data file {shown(str(path))}", path.name, rows, task.train.counts)


def rows_in_memory(rows: InMemory, task: Task) -> UnsplitRows:
    """Returns rows in memory as a source, by the rules for a file with the same rows."""
    drawing = drawing_of(task)
    if isinstance(rows, Rows):
        plain = rows.drawn(drawing)
    else:
        from node.data.data_frames import encoded_frame, plain_frame  # noqa: PLC0415 - pyarrow

        schema = task.data.own_schema
        if isinstance(schema, TableSchema):
            encoded = encoded_frame(rows, schema, drawing)
            return _encoded_rows("a data frame", schema, task.data.cells, encoded)
        plain = replace(plain_frame(rows, task, drawing), names=rows.names)
    return _understood("data", "rows in memory", plain, task.train.counts)


def drawing_of(task: Task) -> RowDraws:
    """Returns what the task asks of each row: its draw, and whose it is."""
    return RowDraws(task.task.seed, task.data.person, blank_is_own=task.data.blank_person == "own")


def _understood(what: str, label: str, rows: Rows, counts: bool) -> UnsplitRows:
    """Returns rows of numbers as a source; `what` names it in errors, `label` in its description.

    `counts`: whether whole numbers are counts, and no labels of classes.
    """
    y, classes = (rows.y.astype(np.float32), None) if counts else _targets(what, rows)
    kind = f"classes 0 to {classes - 1}" if classes else "any number"
    content = f"{_features(rows)}, target {shown(rows.target)} ({kind})"
    headline = f"{label}: {counted(len(y), 'row')}, numbers as they are (the task has no schema)"
    entries = [Entry(name, _shape_of(rows), "") for name in rows.features]
    report = Report(headline, (Entry(rows.target, "target", kind), *entries), ())
    return UnsplitRows(
        rows.x, y, len(rows.names) or classes, label, content, report, rows.draws, rows.persons, rows.names
    )


def _shape_of(rows: Rows) -> str:
    return "number" if rows.x.ndim == 2 else f"{' x '.join(map(str, rows.x.shape[1:]))} numbers"


def _targets(what: str, rows: Rows) -> tuple[NDArray[np.int64] | NDArray[np.float32], int | None]:
    """Returns the targets (n,), and the number of classes if they are labels."""
    whole = np.all(rows.y == np.floor(rows.y))
    if not whole:
        return rows.y.astype(np.float32), None
    for label in (rows.y.min(), rows.y.max()):
        if not 0 <= label < _MOST_CLASSES:
            raise ConfigError(
                f"{what}: target {shown(rows.target)} holds the label {label:.0f}; "
                f"allowed: 0 to K-1, K at most {_MOST_CLASSES} (whole numbers are read as class labels)"
            )
    labels = rows.y.astype(np.int64)
    return labels, max(2, int(labels.max()) + 1)


def _features(rows: Rows) -> str:
    """Returns a short description of the features."""
    names = rows.features
    if rows.x.ndim > 2 or len(names) == 1:
        return f"features {shown(names[0])} of shape {rows.x.shape[1:]}"
    return f"{len(names)} features ({shown(names[0])} to {shown(names[-1])})"


def _encoded_rows(label: str, schema: Schema, cells: Cells | None, encoded: Encoded) -> UnsplitRows:
    target = schema.target
    classes = len(target.values) if isinstance(target, ClassTarget) else None
    kind = f"{classes} classes" if classes else "any number"
    named = f"target {shown(target.name)}" if target.name else "target: the folder's name"
    content = f"{_encoded(schema)}, {named} ({kind})"
    headline = f"{label}: {counted(len(encoded.y), 'row')}, {content}"
    report = Report(headline, encoded.entries, (*_written(schema, cells), *encoded.remarks))
    return UnsplitRows(encoded.x, encoded.y, classes, label, content, report, encoded.draws, encoded.persons)


def _written(schema: Schema, cells: Cells | None) -> tuple[str, ...]:
    told = described(schema.written) if isinstance(schema, TableSchema) else ""
    if cells is not None:
        told = f"{told or 'the marks that programs write'}; of this, --cells says {cells_text(cells)}"
    return (f"written, as the task says, with: {told}",) if told else ()


def _encoded(schema: Schema) -> str:
    match schema:
        case TableSchema():
            return f"{counted(len(schema.columns), 'column')} as {counted(schema.shape[0], 'feature')}"
        case ArraySchema():
            return f"{schema.kind} of {' x '.join(map(str, schema.shape))}"
