"""Chooses the reader of a data file by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from node.system.errors import ConfigError, shown

Kind = Literal["table", "workbook", "parquet", "npz", "texts"]

_TEXT = frozenset({".csv", ".tsv", ".txt"})
_WORKBOOKS = frozenset({".xlsx", ".xlsm"})
_OTHER_SHEETS = frozenset({".xls", ".xlsb", ".ods", ".numbers"})
TABLES = frozenset({"table", "workbook", "parquet", "texts"})
"""The kinds with a header and columns."""


def kind_of(path: Path) -> Kind:
    """Returns "table" (text with a separator, also .gz), "workbook", "parquet", "npz", or "texts": a folder.

    Raises ConfigError for other names.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    last = suffixes[-1] if suffixes else ""
    if last in _TEXT or (last == ".gz" and suffixes[-2:-1] and suffixes[-2] in _TEXT):
        return "table"
    if last == ".parquet":
        return "parquet"
    if last == ".npz":
        return "npz"
    if last in _WORKBOOKS:
        return "workbook"
    if last in _OTHER_SHEETS:
        raise ConfigError(f"data file {shown(str(path))} is refused; save it as .xlsx or as .csv")
    if path.is_dir():
        return "texts"
    raise ConfigError(
        f"data file {shown(str(path))} is refused; allowed: .csv, .tsv or .txt (each also .gz), .xlsx, "
        ".parquet, .npz, or a folder of images or texts with a task that has a schema (python -m "
        "node.init makes one)"
    )
