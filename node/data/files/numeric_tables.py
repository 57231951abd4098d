"""Reads a user's numeric tables without a schema: CSV with a header line, Parquet, or npz.

Columns with other values need a schema in the task: node/data/encoding.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from node.data.files.formats import kind_of
from node.data.files.npz import finite, persons_of_array, read_arrays
from node.data.rows import Rows, bare_rows
from node.data.sides import NOT_DRAWN, RowDraws
from node.data.text.cells import A_NUMBER, FINITE, no_numbers
from node.system.errors import ConfigError, reason, shown

if TYPE_CHECKING:
    from node.data.files.csv_and_parquet import Frame

MOST_CELLS = 200_000_000
"""The most numbers in one CSV or Parquet file."""
_HINT = "; a task made by python -m node.init takes such columns"


def read_table(
    path: Path, features: tuple[str, ...] | None, target: str | None, drawing: RowDraws | None = None
) -> Rows:
    """Reads the table in `path`: text with a separator, Parquet, or npz.

    CSV, Parquet: `target` is a column (default the last), `features` are columns (default all others).
    npz: they are names of arrays (default "y", "x"). `drawing` draws each row, and asks
    whose it is; its column is no feature. Raises ConfigError if the file is unreadable or empty, a value is
    no finite number, or a name is not there.
    """
    if kind_of(path) != "npz":
        from node.data.files.csv_and_parquet import read_frame  # noqa: PLC0415 - pyarrow: loaded only if needed

        return table_of(read_frame(path, None, drawing=drawing), features, target)
    try:
        return _read_npz(path, features, target, drawing)
    except (OSError, EOFError, ValueError, MemoryError, zlib.error) as error:
        raise ConfigError(f"data file {shown(str(path))} cannot be read: {reason(error)}") from None


def _fail(path: Path, text: str) -> NoReturn:
    raise ConfigError(f"data file {shown(str(path))}{text}")


def target_in(frame: Frame, target: str | None) -> str:
    """Returns the name of the target's column: `target`, or the last one; raises ConfigError."""
    header = _header(frame)
    return _name_in(frame.path, header, target or header[-1], "data.target")


def _header(frame: Frame) -> list[str]:
    """Returns the names of the columns, without the one that says whose a row is."""
    return [name for name in frame.columns if frame.persons is None or name != frame.persons.column]


def table_of(frame: Frame, features: tuple[str, ...] | None, target: str | None) -> Rows:
    """Returns the columns in use of a frame; ConfigError unless they are numbers."""
    from node.data.text.columns import bare_numbers_of  # noqa: PLC0415 - as above

    path, header, wanted = frame.path, _header(frame), target_in(frame, target)
    chosen = features or tuple(name for name in header if name != wanted)
    if not chosen:
        _fail(path, f" has no column beside the target {shown(wanted)} to learn from; add at least one")
    if wanted in chosen:
        _fail(path, f": column {shown(wanted)} is the target, so data.features cannot name it too")
    columns = [_name_in(path, header, name, "data.features") for name in chosen] + [wanted]
    if frame.rows * len(columns) > MOST_CELLS:
        _fail(path, f" has more than {MOST_CELLS} values; allowed: at most that many; take a part of it")
    values = np.empty((frame.rows, len(columns)))
    for place, name in enumerate(columns):
        values[:, place], word = bare_numbers_of(frame.columns[name])
        if word is not None:
            why = f"{shown(word.word)} is not {A_NUMBER}{_HINT}"
            _fail(path, f", row {word.row}, column {shown(name)}: {why}")
    bad = np.argwhere(no_numbers(values))
    if len(bad):
        row, place = bad[0]
        _fail(
            path, f", row {row + 1}, column {shown(columns[place])}: {values[row, place]:g} is not {FINITE}"
        )
    x, y = values[:, :-1].astype(np.float32), values[:, -1].copy()
    return bare_rows(path.name, x, y, chosen, wanted, frame.draws, frame.persons)


def _name_in(path: Path, header: Sequence[str], name: str, key: str) -> str:
    """Returns `name` if it is a column; raises ConfigError else."""
    if name not in header:
        listed = shown(", ".join(header))
        _fail(path, f" has no column {shown(name)}, which {key} asks for; it has {listed}")
    return name


def _read_npz(
    path: Path, features: tuple[str, ...] | None, target: str | None, drawing: RowDraws | None
) -> Rows:
    """Reads the table in an npz file: one array for the features, (n, ...), one for the target, (n,)."""
    x_name, y_name = (features or ("x",))[0], target or "y"
    if features is not None and len(features) > 1:
        _fail(path, f": data.features names {len(features)} arrays; allowed for npz: one, such as ['x']")
    arrays = read_arrays(path, (x_name, y_name))
    x, y = (finite(path, name, arrays[name]) for name in (x_name, y_name))
    if x.ndim < 2 or y.shape != x.shape[:1]:
        _fail(path, f": {x_name} is {x.shape} and {y_name} is {y.shape}; allowed: shapes (n, ...) and (n,)")
    if len(x) < 2:
        _fail(path, f" has {len(x)} rows; at least 2 are needed, to train and to validate")
    draws = NOT_DRAWN if drawing is None else drawing.of_arrays(x, y)
    persons = persons_of_array(path, len(x), drawing)
    return bare_rows(path.name, x.astype(np.float32), y.astype(np.float64), (x_name,), y_name, draws, persons)
