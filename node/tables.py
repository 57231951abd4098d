"""Numeric tables of a user's own: CSV with a header line, or npz."""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from node.errors import ConfigError, reason, shown

_UNREADABLE = (
    *(OSError, EOFError, ValueError, MemoryError, csv.Error),
    *(zipfile.BadZipFile, zlib.error, RuntimeError),  # RuntimeError: encrypted, or packed in an unknown way
)


@dataclass(frozen=True)
class Table:
    """Rows as they were read: `x` (n, ...) and `y` (n,), both finite; `features` are names."""

    x: NDArray[np.float32]
    y: NDArray[np.float64]
    features: tuple[str, ...]
    target: str


def read_table(path: Path, features: tuple[str, ...] | None, target: str | None) -> Table:
    """The table in `path`, a .csv or .npz file.

    CSV: `target` is a column (default the last), `features` are columns (default all others).
    npz: they are names of arrays (default "y", "x"). Raises ConfigError: unreadable, empty, a
    value that is no finite number, a name that is not there.
    """
    readers = {".csv": _read_csv, ".npz": _read_npz}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ConfigError(f"data file {shown(str(path))} is refused; allowed: a .csv or .npz file")
    try:
        return reader(path, features, target)
    except _UNREADABLE as error:
        raise ConfigError(f"data file {shown(str(path))} can not be read: {reason(error)}") from None


def _fail(path: Path, text: str) -> NoReturn:
    raise ConfigError(f"data file {shown(str(path))}{text}")


def _read_csv(path: Path, features: tuple[str, ...] | None, target: str | None) -> Table:
    """The table in a CSV file; only the columns in use need to be numeric."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        header = _header(path, next(reader, []))
        wanted = _name_in(path, header, target or header[-1], "data.target")
        chosen = features or tuple(name for name in header if name != wanted)
        columns = [_name_in(path, header, name, "data.features") for name in chosen]
        if wanted in columns:
            _fail(path, f": column {shown(wanted)} is the target, so data.features can not name it too")
        places = [header.index(name) for name in (*columns, wanted)]
        values, lines = _numbers(path, reader, header, places)
    return _finished(path, values, lines, tuple(columns), wanted)


def _header(path: Path, cells: Sequence[str]) -> list[str]:
    """The names of the columns: two or more, each once, not numbers."""
    header = [cell.strip() for cell in cells]
    if not any(header):
        _fail(path, " is empty; allowed: a header line, then rows of numbers")
    if all(_number(cell) is not None for cell in header):
        _fail(path, f" has no header: its first line is {shown(','.join(header))}; put the names there")
    for place, name in enumerate(header):
        if name in header[:place]:
            _fail(path, f" has two columns named {shown(name)}; each needs a name of its own")
    if len(header) < 2:
        _fail(path, f" has one column, {shown(header[0])}; allowed: features and a target, between commas")
    return header


def _name_in(path: Path, header: Sequence[str], name: str, key: str) -> str:
    """`name`, if it is a column."""
    if name not in header:
        listed = shown(", ".join(header))
        _fail(path, f" has no column {shown(name)}, which {key} asks for; it has {listed}")
    return name


def _number(cell: str) -> float | None:
    """The number in `cell`, NaN and infinities too; None if it is none."""
    try:
        return float(cell)
    except ValueError:
        return None


def _numbers(
    path: Path, reader: Iterator[list[str]], header: Sequence[str], places: Sequence[int]
) -> tuple[NDArray[np.float64], list[int]]:
    """The values (n, columns) at `places` of each row, and the row's line in the file."""
    rows: list[list[float]] = []
    lines: list[int] = []
    for line, cells in _rows(path, reader, len(header)):
        try:
            rows.append([float(cells[place]) for place in places])
        except ValueError:
            bad = next(place for place in places if _number(cells[place]) is None)
            _fail(path, f", line {line}, column {shown(header[bad])}: {shown(cells[bad])} is not a number")
        lines.append(line)
    return np.array(rows, np.float64).reshape(len(rows), len(places)), lines


def _rows(path: Path, reader: Iterator[list[str]], columns: int) -> Iterator[tuple[int, list[str]]]:
    """Each row that is not blank, with its line, checked for its number of values."""
    for line, cells in enumerate(reader, 2):
        if not any(cell.strip() for cell in cells) and len(cells) < 2:
            continue
        if len(cells) != columns:
            _fail(path, f", line {line}: {len(cells)} values; the header names {columns}")
        yield line, cells


def _finished(
    path: Path, values: NDArray[np.float64], lines: Sequence[int], features: tuple[str, ...], target: str
) -> Table:
    """The Table of `values` (n, features + 1), the target last; refuses what float32 can not hold."""
    with np.errstate(over="ignore"):
        bad = np.argwhere(~np.isfinite(values.astype(np.float32)))
    if len(bad):
        row, column = bad[0]
        name, value = (*features, target)[column], values[row, column]
        _fail(path, f", line {lines[row]}, column {shown(name)}: {value:g} is not a finite float32 number")
    if len(values) < 2:
        _fail(path, f" has {len(values)} rows; at least 2 are needed, to train and to validate")
    return Table(values[:, :-1].astype(np.float32), values[:, -1].copy(), features, target)


def _read_npz(path: Path, features: tuple[str, ...] | None, target: str | None) -> Table:
    """The table in an npz file: one array for the features, (n, ...), one for the target, (n,)."""
    x_name, y_name = (features or ("x",))[0], target or "y"
    if features is not None and len(features) > 1:
        _fail(path, f": data.features names {len(features)} arrays; allowed for npz: one, such as ['x']")
    x, y = _arrays(path, x_name, y_name)
    if x.ndim < 2 or y.shape != x.shape[:1]:
        _fail(path, f": {x_name} is {x.shape} and {y_name} is {y.shape}; allowed: shapes (n, ...) and (n,)")
    if len(x) < 2:
        _fail(path, f" has {len(x)} rows; at least 2 are needed, to train and to validate")
    return Table(x.astype(np.float32), y.astype(np.float64), (x_name,), y_name)


def _arrays(path: Path, *names: str) -> tuple[NDArray, ...]:
    """The arrays called `names`; nothing in the file is ever unpickled."""
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            _fail(path, " is not an npz file; numpy.savez makes one")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            for name in names:
                if name not in arrays:
                    _fail(path, f" has no array {shown(name)}; it has {shown(', '.join(arrays))}")
            return tuple(_array(path, name, arrays[name]) for name in names)


def _array(path: Path, name: str, array: NDArray) -> NDArray:
    """`array`, if its numbers are finite as float32."""
    if array.dtype.kind not in "biuf":
        _fail(path, f": array {shown(name)} holds {array.dtype}, not numbers")
    with np.errstate(over="ignore"):
        bad = np.argwhere(~np.isfinite(array.astype(np.float32)))
    if len(bad):
        place = tuple(int(index) for index in bad[0])
        _fail(path, f": {name}{list(place)} = {array[place]:g} is not a finite float32 number")
    return array
