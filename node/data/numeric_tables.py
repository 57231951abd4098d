"""Numeric tables of a user's own, taken as they are: CSV with a header line, Parquet, or npz.

Columns of anything else need a schema in the task: node/data/encoding.py.
"""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from node.data.cells import A_NUMBER, FINITE, no_numbers, number
from node.data.csv_head import header_of, open_bytes, read_head, separator_of
from node.data.formats import kind_of
from node.data.npz import finite, read_arrays
from node.errors import ConfigError, reason, shown

MOST_CELLS = 200_000_000
"""Numbers in one text file."""
MOST_ROW_CHARACTERS = 8 << 20
"""In one row of a text file: as many as node.data.arrow_tables takes at once."""
_HINT = "; a task made by python -m node.init takes such columns"

_UNREADABLE = (OSError, EOFError, ValueError, MemoryError, csv.Error, zlib.error)


@dataclass(frozen=True)
class Table:
    """Rows as they were read: `x` (n, ...) and `y` (n,), both finite; `features` are names."""

    x: NDArray[np.float32]
    y: NDArray[np.float64]
    features: tuple[str, ...]
    target: str


def read_table(path: Path, features: tuple[str, ...] | None, target: str | None) -> Table:
    """The table in `path`: text with a separator, Parquet, or npz.

    CSV, Parquet: `target` is a column (default the last), `features` are columns (default all others).
    npz: they are names of arrays (default "y", "x"). Raises ConfigError: unreadable, empty, a
    value that is no finite number, a name that is not there.
    """
    readers = {"table": _read_csv, "parquet": _read_parquet, "npz": _read_npz}
    reader = readers[kind_of(path)]
    try:
        return reader(path, features, target)
    except _UNREADABLE as error:
        raise ConfigError(f"data file {shown(str(path))} can not be read: {reason(error)}") from None


def _fail(path: Path, text: str) -> NoReturn:
    raise ConfigError(f"data file {shown(str(path))}{text}")


def _read_csv(path: Path, features: tuple[str, ...] | None, target: str | None) -> Table:
    """The table in a CSV file; only the columns in use need to be numeric."""
    separator = separator_of(read_head(path))
    with io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="") as file:
        text = _Text(file)
        reader = csv.reader(text, delimiter=separator, strict=True)
        header = header_of(path, next(reader, []))
        wanted = _name_in(path, header, target or header[-1], "data.target")
        chosen = features or tuple(name for name in header if name != wanted)
        columns = [_name_in(path, header, name, "data.features") for name in chosen]
        if wanted in columns:
            _fail(path, f": column {shown(wanted)} is the target, so data.features can not name it too")
        places = [header.index(name) for name in (*columns, wanted)]
        values, lines = _numbers(path, _rows(path, text, reader, len(header)), header, places)
    return _finished(path, values, lines, tuple(columns), wanted)


def _name_in(path: Path, header: Sequence[str], name: str, key: str) -> str:
    """`name`, if it is a column."""
    if name not in header:
        listed = shown(", ".join(header))
        _fail(path, f" has no column {shown(name)}, which {key} asks for; it has {listed}")
    return name


def _no_number(cell: str) -> str:
    return f"{shown(cell)} is not {A_NUMBER}{_HINT}"


def _numbers(
    path: Path, rows: Iterator[tuple[int, list[str]]], header: Sequence[str], places: Sequence[int]
) -> tuple[NDArray[np.float64], list[int]]:
    """The values (n, columns) at `places` of each row, and the row's line in the file."""
    kept: list[list[float]] = []
    lines: list[int] = []
    for line, cells in rows:
        if len(kept) * len(places) > MOST_CELLS:
            _fail(path, f" has more than {MOST_CELLS} values; allowed: at most that many; take a part of it")
        values = [number(cells[place]) for place in places]
        if None in values:
            bad = places[values.index(None)]
            _fail(path, f", line {line}, column {shown(header[bad])}: {_no_number(cells[bad])}")
        kept.append(cast("list[float]", values))
        lines.append(line)
    return np.array(kept, np.float64).reshape(len(kept), len(places)), lines


class _Text:
    """The lines of a file for a csv.reader: a row that goes on and on is refused before it is in memory."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._left = MOST_ROW_CHARACTERS

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._file.readline(self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            raise ValueError(f"it has a row of more than {MOST_ROW_CHARACTERS} characters")
        if not line:
            raise StopIteration
        return line

    def begin_row(self) -> None:
        """What was read before was another row."""
        self._left = MOST_ROW_CHARACTERS


def _rows(
    path: Path, text: _Text, reader: Iterator[list[str]], columns: int
) -> Iterator[tuple[int, list[str]]]:
    """Each row that is not blank, with its line, checked for its number of values."""
    for line, cells in enumerate(reader, 2):
        text.begin_row()
        if not any(cell.strip() for cell in cells) and len(cells) < 2:
            continue
        if len(cells) != columns:
            _fail(path, f", line {line}: {len(cells)} values; the header names {columns}")
        yield line, cells


def _finished(
    path: Path, values: NDArray[np.float64], lines: Sequence[int], features: tuple[str, ...], target: str
) -> Table:
    """The Table of `values` (n, features + 1), the target last; refuses a column without a value in a row."""
    bad = np.argwhere(no_numbers(values))
    if len(bad):
        row, column = bad[0]
        name, value = (*features, target)[column], values[row, column]
        _fail(path, f", line {lines[row]}, column {shown(name)}: {value:g} is not {FINITE}")
    if len(values) < 2:
        _fail(path, f" has {len(values)} rows; at least 2 are needed, to train and to validate")
    return Table(values[:, :-1].astype(np.float32), values[:, -1].copy(), features, target)


def _read_npz(path: Path, features: tuple[str, ...] | None, target: str | None) -> Table:
    """The table in an npz file: one array for the features, (n, ...), one for the target, (n,)."""
    x_name, y_name = (features or ("x",))[0], target or "y"
    if features is not None and len(features) > 1:
        _fail(path, f": data.features names {len(features)} arrays; allowed for npz: one, such as ['x']")
    arrays = read_arrays(path, (x_name, y_name))
    x, y = (finite(path, name, arrays[name]) for name in (x_name, y_name))
    if x.ndim < 2 or y.shape != x.shape[:1]:
        _fail(path, f": {x_name} is {x.shape} and {y_name} is {y.shape}; allowed: shapes (n, ...) and (n,)")
    if len(x) < 2:
        _fail(path, f" has {len(x)} rows; at least 2 are needed, to train and to validate")
    return Table(x.astype(np.float32), y.astype(np.float64), (x_name,), y_name)


def _read_parquet(path: Path, features: tuple[str, ...] | None, target: str | None) -> Table:
    """The table in a Parquet file whose columns in use are numbers."""
    from node.data.arrow_tables import read_frame  # noqa: PLC0415
    from node.data.columns import numbers_of  # noqa: PLC0415 - pyarrow is large, and loaded only where it is needed

    frame = read_frame(path, None)
    header = list(frame.columns)
    wanted = _name_in(path, header, target or header[-1], "data.target")
    chosen = features or tuple(name for name in header if name != wanted)
    columns = [_name_in(path, header, name, "data.features") for name in (*chosen, wanted)]
    values = np.empty((frame.rows, len(columns)))
    for place, name in enumerate(columns):
        values[:, place], bad = numbers_of(frame.columns[name])
        if bad is not None:
            _fail(path, f", row {bad.row}, column {shown(name)}: {_no_number(bad.word)}")
    return _finished(path, values, range(1, frame.rows + 1), chosen, wanted)
