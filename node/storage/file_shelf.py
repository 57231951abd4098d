"""What a secure sum of long vectors keeps until it is over: in a file without a name, of this user alone.

A sum of short vectors keeps it in memory. The file needs room for three vectors on the disk of its folder;
it is gone with its last reader, also if the process is killed. Nothing in it is more than this node received
or sent: masked words, and totals.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
import weakref
from functools import partial
from pathlib import Path

from node.system.errors import UserError, reason
from protocol.vectors.shelf import Payload, Place, Shelf, in_memory

LONG_BYTES = 32 << 20
"""From this many bytes on, a sum keeps them in a file."""


class FileShelves:
    """Makes the shelves of a node's sums; from `least` bytes on they are files in `folder`."""

    def __init__(self, folder: Path, least: int = LONG_BYTES) -> None:
        self._folder, self._least = folder, least
        self._lock = threading.Lock()
        self.bytes = 0
        """How many bytes all sums have written so far."""
        self.seconds = 0.0
        """How long all threads have written and read, together."""

    def __call__(self, size: int) -> Shelf:
        """Returns a shelf for about `size` bytes. Raises UserError if the disk has no room for them."""
        if size < self._least:
            return in_memory(size)
        try:
            return _FileShelf(self, self._folder, size)
        except OSError as error:
            raise _refused(self._folder, error) from error

    def count(self, written: int, seconds: float) -> None:
        """Counts what a shelf wrote or read."""
        with self._lock:
            self.bytes += written
            self.seconds += seconds


class _FileShelf:
    def __init__(self, shelves: FileShelves, folder: Path, size: int) -> None:
        """Takes the room at once, so that a full disk shows before the sum has begun. Raises OSError."""
        self._shelves, self._folder = shelves, folder
        self._file, name = tempfile.mkstemp(dir=folder)  # 0600
        weakref.finalize(self, os.close, self._file)  # with its last place
        Path(name).unlink()
        if sys.platform == "linux":
            os.posix_fallocate(self._file, 0, size)
        self._lock = threading.Lock()
        self._end = 0

    def put(self, payload: Payload) -> Place:
        """Writes a payload. Raises UserError if the disk takes no more."""
        begun, size = time.perf_counter(), len(payload)
        with self._lock:
            start, self._end = self._end, self._end + size
        rest = memoryview(payload)
        try:
            while rest:
                rest = rest[os.pwrite(self._file, rest, start + size - len(rest)) :]
        except OSError as error:
            raise _refused(self._folder, error) from error
        self._shelves.count(size, time.perf_counter() - begun)
        return partial(self._read, start, size)

    def _read(self, start: int, size: int) -> bytes:
        begun = time.perf_counter()
        payload = os.pread(self._file, size, start)
        if len(payload) < size:
            raise UserError(f"{self._folder}: the file of a sum ended early")
        self._shelves.count(0, time.perf_counter() - begun)
        return payload


def _refused(folder: Path, error: OSError) -> UserError:
    return UserError(
        f"{folder}: what a sum of long vectors keeps cannot be written: {reason(error)}; make room there"
    )
