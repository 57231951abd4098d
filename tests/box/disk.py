"""A node's disk under the box: real files, and what a computer would still have of them after it lost power.

A running node sees its folder as it is. `sync` and `commit` (node.system.disk) say what is on disk: a
file's content at its last sync, a folder's names at its last sync, a database at its last durable commit.
Everything else may be gone after a power failure: new names, renames, content. After kill -9 all that was
written is kept.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")

Files = dict[Path, bytes | None]
"""The content of each file below a folder; None for a folder."""


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """Yields a new folder, in memory where there is such a place: SQLite waits for a disk at each commit."""
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="murmuration-box-", dir=place) as folder:
        yield Path(folder)


class Killed(BaseException):
    """The process is gone; nothing may catch this."""


class BoxDisk:
    """One node's disk, over all its lives."""

    def __init__(
        self,
        folder: Path,
        step: Callable[[str, Path], None],
        committed: Callable[[sqlite3.Connection, bool], None] = lambda *_: None,
    ) -> None:
        """`step` is called before each wait for the disk, with what is waited for; it may raise.

        `committed` is called after each transaction, with whether it is on disk now.
        """
        self.folder = folder
        self.is_full = False
        self.is_frozen = False
        """Whether the process is dead: nothing reaches the disk any more."""
        self._step, self._committed = step, committed
        self._content: dict[int, bytes] = {}
        self._names: dict[Path, dict[str, int]] = {}
        self._databases: dict[Path, bytes] = {}
        self._held: dict[int, int] = {}
        """An open descriptor of each known file, so that its number is given to no other."""

    # -- what a node calls -------------------------------------------------------------------------

    def sync(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        self._before("sync", path)
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            self._names[path] = {entry.name: self._hold(Path(entry.path)) for entry in os.scandir(path)}
        else:
            self._content[self._hold(path)] = path.read_bytes()

    def commit(self, path: Path, connection: sqlite3.Connection, *, durable: bool) -> None:
        self._before("commit", path)
        connection.execute("commit")
        if durable:
            self._databases[path] = connection.serialize()
        self._committed(connection, durable)

    def _before(self, what: str, path: Path) -> None:
        if self.is_frozen:
            raise Killed
        self._step(what, path)
        if self.is_full:
            if what == "commit":
                raise sqlite3.OperationalError("database or disk is full")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def _hold(self, path: Path) -> int:
        number = path.stat().st_ino
        if number not in self._held:
            self._held[number] = os.open(path, os.O_RDONLY)
        return number

    # -- what is left ------------------------------------------------------------------------------

    def database(self) -> sqlite3.Connection | None:
        """Returns a copy of the database as a power failure would leave it; None if there is none."""
        image = self._databases.get(self.folder / "state.db")
        if image is None:
            return None
        copy = sqlite3.connect(":memory:")
        copy.deserialize(
            image[:18] + b"\x01\x01" + image[20:]
        )  # without a log beside it (file format, 1.3.3)
        return copy

    def synced_content(self, name: str) -> bytes:
        """Returns what a power failure leaves of a file of the folder; empty if that is nothing."""
        number = self._names.get(self.folder, {}).get(name)
        return b"" if number is None else self._content.get(number, b"")

    def written(self) -> Files:
        """Returns what kill -9 leaves: all that was written."""
        return {
            path: None if path.is_dir() else path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if not path.name.endswith("-shm")
        }

    def on_disk(self, rng: random.Random) -> Files:
        """Returns what a power failure leaves: what was synced, and by chance some of the rest.

        A file that was renamed has its synced content under either name.
        """
        left = self.synced()
        for path, content in self.written().items():
            is_free = path not in left and not path.name.startswith("state.db")
            if is_free and path.parent in {self.folder, *left} and rng.random() < 0.5:
                sure = b"" if content is None else self._content.get(path.stat().st_ino, b"")
                left[path] = None if content is None else rng.choice((sure, content))
        return left

    def synced(self) -> Files:
        """Returns what is on disk for certain."""
        left: Files = {}
        self._collect(self.folder, left)
        return left

    def _collect(self, folder: Path, left: Files) -> None:
        for name, number in sorted(self._names.get(folder, {}).items()):
            path = folder / name
            if stat.S_ISDIR(os.fstat(self._held[number]).st_mode):
                left[path] = None
                self._collect(path, left)
            elif path in self._databases:
                left[path] = self._databases[path]
            elif not name.endswith(("-wal", "-shm")):
                left[path] = self._content.get(number, b"")

    def restore(self, files: Files) -> None:
        """Makes the folder hold these files, all of them on disk."""
        self.release()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for path, content in files.items():
            if content is None:
                path.mkdir()
            else:
                path.write_bytes(content)
                path.chmod(0o600)
        self.is_frozen = self.is_full = False
        self._names = {
            folder: {entry.name: self._hold(Path(entry.path)) for entry in os.scandir(folder)}
            for folder in (self.folder, *(path for path, content in files.items() if content is None))
        }
        self._content = {
            path.stat().st_ino: content for path, content in files.items() if content is not None
        }
        self._databases = {path: _image(path) for path in self._databases if path in files}

    def release(self) -> None:
        """Closes the descriptors that it holds."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()


def _image(path: Path) -> bytes:
    """Returns a database and its write-ahead log in one piece, without touching the files."""
    with tempfile.TemporaryDirectory() as folder:
        for name in (path.name, f"{path.name}-wal"):
            if path.with_name(name).exists():
                shutil.copy(path.with_name(name), folder)
        with closing(sqlite3.connect(Path(folder) / path.name)) as copy:
            return copy.serialize()
