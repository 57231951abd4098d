"""The first rows of a table as they are written, without a reading of the whole file."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from node.data.files.csv_and_parquet import fail
from node.data.files.csv_head import read_head
from node.data.files.excel import open_sheet
from node.data.files.formats import kind_of
from node.init.asked import NOTHING_ASKED
from node.storage.regular_files import check_regular
from node.system.errors import one_line, reason
from node.task.dialect import Dialect

MOST_COLUMNS = 200
_SHEET_BYTES = 1 << 30
_WIDEST = 60
_UNREADABLE = (OSError, EOFError, ValueError, MemoryError, csv.Error, zipfile.BadZipFile, pa.ArrowException)


@dataclass(frozen=True)
class FirstRows:
    """The names of the columns, at most MOST_COLUMNS, and the cells of the first rows as they are written."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0
    """How many more columns there are."""


def first_rows(path: Path, count: int) -> FirstRows:
    """Returns the first `count` rows of a table; none of what is no table (npz, a folder of images).

    Raises ConfigError for a file that cannot be read.
    """
    dialect = NOTHING_ASKED.first
    try:
        match kind_of(path):
            case "parquet":
                return _of_parquet(path, count)
            case "workbook":
                with open_sheet(path, None, _SHEET_BYTES) as sheet:
                    return _cut(
                        sheet.header, [[cell or "" for cell in row] for row in islice(sheet.rows, count)]
                    )
            case "table":
                return _of_text(path, count, dialect)
            case "npz" | "texts":
                return FirstRows((), ())
    except _UNREADABLE as error:
        fail(path, f" cannot be read: {reason(error)}")


def _of_text(path: Path, count: int, dialect: Dialect) -> FirstRows:
    try:
        head = read_head(path, None, dialect)
    except UnicodeError:
        head = read_head(path, dialect.encoding, dialect)
    rows = csv.reader(io.StringIO(head.text), delimiter=head.separator)
    header = next(rows, [])
    return _cut(header, list(islice(filter(None, rows), count)))


def _of_parquet(path: Path, count: int) -> FirstRows:
    check_regular(path)
    with pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        shown = names[:MOST_COLUMNS]
        batch = next(file.iter_batches(batch_size=count, columns=shown), None)
    cells = [] if batch is None else [column.to_pylist() for column in batch.columns]
    rows = [["" if cell is None else str(cell) for cell in row] for row in zip(*cells, strict=True)]
    return _cut(names, rows)


def _cut(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> FirstRows:
    """Bounds the number of columns and the length of each cell; a short row is filled with empty cells."""
    names = tuple(_cell(name) for name in columns[:MOST_COLUMNS])
    filled = tuple(
        tuple(_cell(row[place]) if place < len(row) else "" for place in range(len(names))) for row in rows
    )
    return FirstRows(names, filled, len(columns) - len(names))


def _cell(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _WIDEST else line[: _WIDEST - 3] + "..."
