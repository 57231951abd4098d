"""The columns of an owner's file that a task's schema does not use."""

from __future__ import annotations

import csv
from pathlib import Path

from node.data.files.csv_and_parquet import read_header
from node.system.errors import ConfigError
from node.task.data_schema import TableSchema


def unread_columns(path: Path, schema: TableSchema, person: str | None = None) -> tuple[str, ...]:
    """Returns the names, from the file's header alone; none for what is no table, or cannot be read.

    `person`: the column that says whose a row is, which is used for that.
    """
    used = {schema.target.name, person, *(column.name for column in schema.columns)}
    try:
        return tuple(name for name in read_header(path, schema.written) if name not in used)
    except (ConfigError, OSError, ValueError, csv.Error):
        return ()
