"""The columns of an owner's file that a task's schema does not use."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow.parquet as pq

from node.data.files.csv_head import read_head
from node.data.files.excel import open_sheet
from node.data.files.formats import TABLES, kind_of
from node.errors import ConfigError
from node.storage.regular_files import check_regular
from node.task.dialect import Dialect
from node.task.schema import TableSchema

_HEAD_BYTES = 1 << 30


def unread_columns(path: Path, schema: TableSchema, person: str | None = None) -> tuple[str, ...]:
    """Returns the names, from the file's header alone; none for what is no table, or cannot be read.

    `person`: the column that says whose a row is, which is used for that.
    """
    used = {schema.target.name, person, *(column.name for column in schema.columns)}
    try:
        return tuple(name for name in _header(path, schema.written) if name not in used)
    except (ConfigError, OSError, ValueError, csv.Error):
        return ()


def _header(path: Path, dialect: Dialect) -> list[str]:
    kind = kind_of(path)
    if kind == "parquet":
        check_regular(path)
        return list(pq.read_schema(path).names)
    if kind == "workbook":
        with open_sheet(path, dialect.sheet, _HEAD_BYTES) as sheet:
            return sheet.header
    if kind not in TABLES:
        return []
    try:
        head = read_head(path, None, dialect)
    except UnicodeError:
        head = read_head(path, dialect.encoding, dialect)
    return [cell.strip() for cell in next(csv.reader(io.StringIO(head.text), delimiter=head.separator), [])]
