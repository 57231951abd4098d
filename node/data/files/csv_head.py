"""Reads the head of a text table: its encoding, its separator and the names of its columns."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from node.data.text.cells import is_value
from node.storage.regular_files import check_regular
from node.system.errors import ConfigError, shown
from node.task.dialect import SEPARATORS, Dialect

HEAD_BYTES = 1 << 20
_LOOKED_AT = 20  # rows
_PLURALS = "commas, semicolons, tabs, bars"
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_EXCEL_SEPARATOR = re.compile(r"sep=([,;\t|])\r?\n", re.IGNORECASE)


@dataclass(frozen=True)
class Head:
    """The first whole lines of a text table, and how it is written. `skipped`: lines before its header."""

    text: str
    encoding: str
    separator: str
    skipped: int


def read_head(path: Path, encoding: str | None, dialect: Dialect) -> Head:
    """Returns the head of `path`; `encoding` None: Unicode, by its mark or its zero bytes, else UTF-8.

    Raises ValueError if it is not text in this encoding or its first line is longer than HEAD_BYTES.
    """
    check_regular(path)
    packed = path.suffix.lower() == ".gz"
    with gzip.open(path) if packed else path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    chosen = encoding or _unicode(head)
    whole = len(head) < HEAD_BYTES
    text = codecs.getincrementaldecoder(chosen)().decode(head, final=whole)
    if not whole:
        text = text[: text.rfind("\n") + 1]
    if head and not text:
        raise ValueError(f"its first line is longer than {HEAD_BYTES} bytes")
    said = _EXCEL_SEPARATOR.match(text)  # a line that Excel writes for itself
    body = text if said is None else text[said.end() :]
    separator = said[1] if said is not None else separator_of(body)
    if dialect.separator is not None:
        separator = SEPARATORS[dialect.separator]
    return Head(body, chosen, separator, 0 if said is None else 1)


def _unicode(head: bytes) -> str:
    """Returns the Unicode encoding of a file that begins with `head`."""
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    if head[1:2] == b"\0" and head[:1] != b"\0":
        return "utf-16-le"
    return "utf-16-be" if head[:1] == b"\0" and head[1:2] != b"\0" else "utf-8"


def separator_of(head: str) -> str:
    """Returns the separator that gives the most columns, the same number in most rows of `head`."""

    def columns(separator: str) -> int:
        rows = _rows(head, separator)
        width = len(rows[0]) if rows else 0
        return width if sum(len(row) == width for row in rows) * 2 > len(rows) else 1

    return max(SEPARATORS.values(), key=columns)


def _rows(head: str, separator: str) -> list[list[str]]:
    """Returns the first rows that are not blank."""
    reader = csv.reader(io.StringIO(head), delimiter=separator)
    rows: list[list[str]] = []
    try:
        for row in reader:
            if row:
                rows.append(row)
            if len(rows) == _LOOKED_AT:
                break
    except csv.Error:  # reported when the whole file is read
        return rows
    return rows


def header_of(path: Path, cells: Sequence[str]) -> list[str]:
    """Returns the column names, two or more and all distinct; raises ConfigError.

    If all cells of the first line are values, the table has no header.
    """
    where, header = f"data file {shown(str(path))}", [cell.strip() for cell in cells]
    if not any(header):
        raise ConfigError(f"{where} is empty; allowed: a header line, then rows of numbers")
    if all(is_value(cell) for cell in header):
        first = shown(",".join(header))
        raise ConfigError(f"{where} has no header: its first line is {first}; put the names there")
    for place, name in enumerate(header):
        if name in header[:place]:
            raise ConfigError(f"{where} has two columns named {shown(name)}; each needs a name of its own")
    if len(header) < 2:
        between = f"{_PLURALS} between them"
        raise ConfigError(
            f"{where} has one column, {shown(header[0])}; allowed: features and a target, {between}"
        )
    return header
