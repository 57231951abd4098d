"""Writes files completely or not at all, even if the process is killed or the disk is full.

A file is written under a temporary name in the same folder, `.NAME.PID`, and renamed when it is complete. At
the next start `tidy` removes temporary files that a kill left.

What a node writes is for its owner alone, unless `mode` says otherwise: its files are derived from data.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from node.system.disk import DISK, Disk

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.\d+(-journal|-wal|-shm)?")


OWNERS, OWNERS_FOLDER = 0o600, 0o700
ANYBODYS = 0o666
"""The mode that the system's umask allows: for files that the owner hands on."""


def own_file(path: Path, mode: str) -> IO[bytes]:
    """Opens a file in a binary `mode`; if this creates the file, only its owner can read it."""
    flags = {"ab": os.O_WRONLY | os.O_APPEND, "a+b": os.O_RDWR | os.O_APPEND}[mode]
    return os.fdopen(os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, OWNERS), mode)


def _temporary(path: Path, mode: int) -> Path:
    """Makes an empty file beside `path`; replaces one that a killed process with the same number left."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    return temporary


@contextmanager
def whole(path: Path, mode: int = OWNERS) -> Iterator[Path]:
    """Yields the path of an empty file that becomes `path` at the end; after an error it is deleted."""
    temporary = _temporary(path, mode)
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yields an empty folder that takes the place of `path` at the end; after an error it is deleted."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    for left in path.parent.glob(f".{path.name}.*"):  # by a process that was killed
        shutil.rmtree(left)
    temporary.mkdir(OWNERS_FOLDER)
    try:
        yield temporary
        if path.exists():
            shutil.rmtree(path)
        temporary.replace(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def replace_file(
    path: Path,
    parts: Iterable[bytes | memoryview],
    durable: bool,
    disk: Disk = DISK,
    mode: int = OWNERS,
) -> None:
    """Writes a file completely or not at all. If `durable`, it also survives a crash of the machine."""
    with whole(path, mode) as temporary, temporary.open("wb") as file:
        for part in parts:
            file.write(part)
        if durable:
            file.flush()
            disk.sync(file.fileno())
    if durable:
        sync(path.parent, disk)


def new_file(path: Path, content: bytes, disk: Disk = DISK) -> None:
    """Writes a file that only its owner can read, durably. Raises FileExistsError if it exists."""
    temporary = _temporary(path, OWNERS)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            disk.sync(file.fileno())
        _name(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent, disk)


def _name(temporary: Path, path: Path) -> None:
    """Gives a file its name unless that is taken. A hard link does so in one step, where supported."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        temporary.replace(path)


def sync(path: Path, disk: Disk = DISK) -> None:
    """Syncs a file's content, or a folder's names, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        disk.sync(descriptor)
    finally:
        os.close(descriptor)


def begins_with(path: Path, beginning: bytes) -> bool:
    """Whether a file begins so: whether it is one that a node's own command wrote."""
    with path.open("rb") as file:
        return file.read(len(beginning)) == beginning


def tidy(folder: Path, names: Collection[str]) -> None:
    """Removes temporary files that a kill left, for files of these names. No process may be writing them."""
    for path in folder.iterdir():
        found = _TEMPORARY.fullmatch(path.name)
        if found is not None and found["name"] in names:
            path.unlink(missing_ok=True)
