"""Folders in memory for boxes: SQLite waits for a disk at each commit, and a box has a disk of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """Yields a new folder, in memory where the system has such a place; removes it at the end."""
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="murmuration-box-", dir=place) as folder:
        yield Path(folder)
