"""Vectors on disk, named by what they hold, so that a name in the database says which file counts."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from node.errors import UserError

Floats = NDArray[np.float32]
_SUFFIX = ".f32"


def replace_file(path: Path, parts: Iterable[bytes | memoryview], durable: bool) -> None:
    """Write a file whole or not at all. `durable`: also against the machine's own end."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as file:
        for part in parts:
            file.write(part)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)
    if durable:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class VectorFiles:
    """A folder of (d,) float32 vectors."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def put(self, vector: Floats) -> str:
        """Store a vector durably; its name."""
        data = np.ascontiguousarray(vector, dtype="<f4").data.cast("B")
        name = hashlib.sha256(data).hexdigest()[:32]
        path = self._folder / (name + _SUFFIX)
        if not path.exists():
            replace_file(path, (data,), durable=True)
        return name

    def get(self, name: str, dimension: int) -> Floats:
        """A stored vector; UserError if the file is not what its name says."""
        path = self._folder / (name + _SUFFIX)
        try:
            vector = np.fromfile(path, dtype="<f4")
        except OSError as error:
            raise UserError(f"{path} is missing or unreadable: start with another --out") from error
        if len(vector) != dimension or hashlib.sha256(vector.data.cast("B")).hexdigest()[:32] != name:
            raise UserError(f"{path} is damaged: start with another --out")
        return vector

    def keep_only(self, names: Iterable[str]) -> None:
        """Delete every other vector."""
        kept = {name + _SUFFIX for name in names}
        for path in self._folder.glob("*" + _SUFFIX):
            if path.name not in kept:
                path.unlink(missing_ok=True)
