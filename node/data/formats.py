"""Chooses the reader of a data file by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from node.errors import ConfigError, shown

Kind = Literal["table", "parquet", "npz"]

_TEXT = frozenset({".csv", ".tsv", ".txt"})


def kind_of(path: Path) -> Kind:
    """Returns "table" (text with a separator, also .gz), "parquet" or "npz"; ConfigError for other names."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    last = suffixes[-1] if suffixes else ""
    if last in _TEXT or (last == ".gz" and suffixes[-2:-1] and suffixes[-2] in _TEXT):
        return "table"
    if last == ".parquet":
        return "parquet"
    if last == ".npz":
        return "npz"
    raise ConfigError(
        f"data file {shown(str(path))} is refused; allowed: .csv, .tsv or .txt (each also .gz), .parquet, "
        ".npz, or a folder of images with a task that has a schema (python -m node.init makes one)"
    )
