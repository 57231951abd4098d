"""Reads the head of a text table: its separator and the names of its columns."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path

from node.data.cells import is_value
from node.errors import ConfigError, shown
from node.storage.regular_files import check_regular

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
HEAD_BYTES = 1 << 20
_LOOKED_AT = 20  # rows


def read_head(path: Path) -> str:
    """Returns the first whole lines of `path`, at most HEAD_BYTES.

    Raises ValueError if they are not UTF-8 or the first line is longer.
    """
    check_regular(path)
    packed = path.suffix.lower() == ".gz"
    with gzip.open(path) if packed else path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    whole = head if len(head) < HEAD_BYTES else head[: head.rfind(b"\n") + 1]
    if head and not whole:
        raise ValueError(f"its first line is longer than {HEAD_BYTES} bytes")
    return whole.decode("utf-8-sig")


def separator_of(head: str) -> str:
    """Returns the separator that gives the most columns, the same number in most rows of `head`."""

    def columns(separator: str) -> int:
        rows = _rows(head, separator)
        width = len(rows[0]) if rows else 0
        return width if sum(len(row) == width for row in rows) * 2 > len(rows) else 1

    return max(SEPARATORS, key=columns)


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
        between = f"{', '.join(SEPARATORS.values())} between them"
        raise ConfigError(
            f"{where} has one column, {shown(header[0])}; allowed: features and a target, {between}"
        )
    return header
