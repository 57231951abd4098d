"""Reads a sheet of an Excel workbook (.xlsx) as rows of text, with openpyxl, row by row.

A workbook is a zip archive of XML. The sizes in its directory, which the zip reader enforces, are checked
before any part is unpacked: small parts are held in memory by openpyxl, sheets are streamed.
"""

from __future__ import annotations

import datetime
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

from openpyxl import load_workbook
from openpyxl.utils.exceptions import InvalidFileException

from node.storage.regular_files import check_regular
from node.system.errors import ConfigError, shown

MOST_HELD_BYTES = 256 << 20
"""The most unpacked bytes of the parts that are held in memory: the workbook's distinct texts, its styles."""
_MOST_PARTS = 10_000
_SHEETS = "xl/worksheets/"
_MOST_ROWS = 1 << 20
"""The limit of Excel; a row's number beyond it would stand for as many empty rows before."""
_DAMAGED = (
    *(KeyError, TypeError, AttributeError, IndexError, SyntaxError, RuntimeError, NotImplementedError),
    *(InvalidFileException, zipfile.BadZipFile),
)

Row = list[str | None]


@dataclass(frozen=True)
class Sheet:
    """A sheet that is being read: its first row, and an iterator over the others."""

    header: list[str]
    rows: Iterator[Row]

    def batches(self, size: int) -> Iterator[list[Row]]:
        """Yields all rows, up to `size` at a time."""
        while rows := list(islice(self.rows, size)):
            yield rows


@contextmanager
def open_sheet(path: Path, name: str | None, most_bytes: int) -> Iterator[Sheet]:
    """Opens the sheet `name` of the workbook in `path`, None for the first one.

    Raises ConfigError if there is no such sheet, ValueError or OSError if the file is no workbook or
    unpacks to more than `most_bytes`.
    """
    check_regular(path)
    _check_sizes(path, most_bytes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and validation rules, which do not matter here
        try:
            book = load_workbook(path, read_only=True, data_only=True, keep_links=False)
        except _DAMAGED as error:
            raise ValueError(f"it is no workbook of Excel ({type(error).__name__})") from error
        try:
            names = [sheet.title for sheet in book.worksheets]
            if not names:
                raise ValueError("it has no sheet with cells")
            if name is not None and name not in names:
                listed = shown(", ".join(names))
                raise ConfigError(f"data file {shown(str(path))} has no sheet {shown(name)}; it has {listed}")
            sheet = book[name if name is not None else names[0]]
            sheet.reset_dimensions()  # those that the file states may be wrong
            rows = _rows(sheet)
            header = next(rows, [])
            while header and header[-1] is None:
                header.pop()
            yield Sheet([cell or "" for cell in header], (_fitted(row, len(header)) for row in rows))
        except _DAMAGED as error:
            raise ValueError(f"a sheet of it is damaged ({type(error).__name__})") from error
        finally:
            book.close()


def _check_sizes(path: Path, most_bytes: int) -> None:
    """Raises ValueError for an archive that is damaged, or would unpack to too much."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
    except zipfile.BadZipFile as error:
        raise ValueError(f"it is no workbook of Excel ({error})") from error
    sheets = sum(part.file_size for part in parts if part.filename.startswith(_SHEETS))
    held = sum(part.file_size for part in parts) - sheets
    for size, most, what in (
        (len(parts), _MOST_PARTS, "parts"),
        (sheets, most_bytes, "bytes of sheets, unpacked"),
        (held, MOST_HELD_BYTES, "bytes of texts and styles, unpacked"),
    ):
        if size > most:
            raise ValueError(f"it has {size} {what}; allowed: at most {most}")


def _rows(sheet: Any) -> Iterator[Row]:
    """Yields the rows that are not empty."""
    for place, cells in enumerate(sheet.iter_rows(values_only=True)):
        if place == _MOST_ROWS:
            raise ValueError(f"its sheet has more than {_MOST_ROWS} rows; allowed: at most that many")
        row = [_word(cell) for cell in cells]
        if any(row):
            yield row


def _fitted(row: Row, width: int) -> Row:
    """Returns a row with as many cells as there are columns; ValueError if cells lie beyond them."""
    beyond = next((cell for cell in row[width:] if cell), None)
    if beyond is not None:
        raise ValueError(f"a row has the cell {shown(beyond)} to the right of the last column's name")
    return row[:width] + [None] * (width - len(row))


def _word(cell: object) -> str | None:
    """Returns a cell as text that every dialect reads alike: a fraction has an exponent instead of a mark."""
    match cell:
        case None | str():
            return cell
        case bool():
            return str(cell).lower()
        case float():
            return _number(cell)
        case datetime.datetime() if cell.time() == datetime.time():
            return cell.date().isoformat()
        case datetime.datetime() | datetime.date() | datetime.time():
            return cell.isoformat()
        case datetime.timedelta():
            return _number(cell / datetime.timedelta(hours=1))
    return str(cell)


def _number(value: float) -> str:
    if value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    return f"{'-' * sign}{''.join(map(str, digits))}e{exponent}"
