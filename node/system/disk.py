"""The moments at which a node waits until its data are on disk.

Everything between two such moments may be lost if the computer loses power. So a test that hands in a disk of
its own knows what a computer keeps: `sync` and `commit` are the only promises.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Protocol


class Disk(Protocol):
    """Where a node's files lie."""

    def sync(self, descriptor: int) -> None:
        """Puts a file's content, or a folder's names, on disk."""

    def commit(self, path: Path, connection: sqlite3.Connection, *, durable: bool) -> None:
        """Ends a transaction of the database at `path`; if it is `durable`, it is on disk then."""


class SystemDisk:
    """The disk of this computer."""

    def sync(self, descriptor: int) -> None:
        """See Disk.sync."""
        os.fsync(descriptor)

    def commit(self, path: Path, connection: sqlite3.Connection, *, durable: bool) -> None:
        """See Disk.commit. The connection's `synchronous` setting says whether SQLite waits for the disk."""
        connection.execute("commit")


DISK = SystemDisk()
