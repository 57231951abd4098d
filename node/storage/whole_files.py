"""Files that are there whole or not at all, whenever the process is killed or the disk is full.

A file is written under a name of its own beside its place, `.NAME.PID`, and gets its name when it is whole.
What a kill leaves of that is taken away by `tidy`, at the next start.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.\d+(-journal|-wal|-shm)?")


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write what will be `path`: it takes its place at the end, and is gone after an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def replace_file(path: Path, parts: Iterable[bytes | memoryview], durable: bool) -> None:
    """Write a file whole or not at all. `durable`: also against the machine's own end."""
    with whole(path) as temporary, temporary.open("wb") as file:
        for part in parts:
            file.write(part)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    if durable:
        sync(path.parent)


def new_file(path: Path, content: bytes) -> None:
    """Write a file that its owner alone may read, durably. FileExistsError where there is one already."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _name(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def _name(temporary: Path, path: Path) -> None:
    """Give a file its name unless that is taken: a second name does so in one step, where there are such."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without second names
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        temporary.replace(path)


def sync(path: Path) -> None:
    """A file's content, or a folder's names, are on disk when this is over."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def tidy(folder: Path, names: Collection[str]) -> None:
    """Take away what a kill left of writing files of these names, while nobody else writes them."""
    for path in folder.iterdir():
        found = _TEMPORARY.fullmatch(path.name)
        if found is not None and found["name"] in names:
            path.unlink(missing_ok=True)
