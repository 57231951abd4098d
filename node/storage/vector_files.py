"""Vectors on disk, named by their content, so that a name in the database identifies the valid file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from node.storage.whole_files import OWNERS_FOLDER, replace_file, sync
from node.system.disk import DISK, Disk
from node.system.errors import UserError

Floats = NDArray[np.float32]
_SUFFIX = ".f32"
_WORD_BYTES = 4


class VectorFiles:
    """A folder of (d,) float32 vectors."""

    def __init__(self, folder: Path, disk: Disk = DISK) -> None:
        folder.mkdir(mode=OWNERS_FOLDER, exist_ok=True)
        sync(folder, disk)  # a kill may have come between a vector's name and that name on disk
        self._folder = folder
        self._disk = disk
        self._checked: set[str] = set()
        """Names of files whose content this process has verified."""

    @staticmethod
    def name_of(vector: Floats) -> str:
        """Returns the name under which a vector is stored: 32 hex digits of its SHA-256."""
        return hashlib.sha256(_bytes(vector)).hexdigest()[:32]

    def put(self, vector: Floats) -> str:
        """Stores a vector durably and returns its name."""
        name = self.name_of(vector)
        path = self._path(name)
        if not path.exists():
            replace_file(path, (_bytes(vector),), durable=True, disk=self._disk)
        return name

    def has(self, name: str) -> bool:
        """Returns whether there is a file with this name."""
        return self._path(name).exists()

    def get(self, name: str, dimension: int) -> Floats:
        """Returns a stored vector (dimension,). Raises UserError if its file is missing or damaged."""
        path = self._path(name)
        try:
            vector = np.fromfile(path, dtype="<f4")
        except OSError as error:
            raise UserError(f"{path} is missing or unreadable: start with another --out") from error
        if len(vector) != dimension or self.name_of(vector) != name:
            raise UserError(f"{path} is damaged: start with another --out")
        self._checked.add(name)
        return vector

    def piece(self, name: str, dimension: int, part: slice) -> bytes | None:
        """Returns the bytes of some words of a stored vector; None if its file is missing or damaged.

        The whole file is read and hashed once, before its first piece; later pieces read only themselves. If
        the file changes after that, the receiver detects it by the digest of all pieces.
        """
        length = _WORD_BYTES * (part.stop - part.start)
        try:
            if name not in self._checked:
                self.get(name, dimension)
            with self._path(name).open("rb", buffering=0) as file:
                file.seek(_WORD_BYTES * part.start)
                found = file.read(length)
        except (OSError, UserError):
            return None
        return found if len(found) == length else None

    def keep_only(self, names: Iterable[str]) -> None:
        """Deletes all other vectors and half-written files. Must not run while a vector is being written."""
        kept = {name + _SUFFIX for name in names}
        for path in self._folder.iterdir():
            is_ours = path.name.endswith(_SUFFIX) or path.name.startswith(".")
            if is_ours and path.name not in kept:
                path.unlink(missing_ok=True)
        self._checked &= {name.removesuffix(_SUFFIX) for name in kept}

    def _path(self, name: str) -> Path:
        return self._folder / (name + _SUFFIX)


def _bytes(vector: Floats) -> memoryview:
    return np.ascontiguousarray(vector, dtype="<f4").data.cast("B")
