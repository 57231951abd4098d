"""What the page may see: the folder in which it was started. No name and no link leads out of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from node.data.files.formats import kind_of
from node.data.images import SUFFIXES
from node.desk.swarm_views import KEPT
from node.observe.run_folder import has_run
from node.storage.regular_files import check_regular
from node.system.errors import ConfigError, reason, shown

MOST_LISTED = 200
"""The most entries of one list."""
_MOST_SEEN = 5000
_DEPTH = 2
_LONGEST = 1024
_PLAIN_NAME = re.compile(r"[^\W_][\w.() -]{0,99}")


@dataclass(frozen=True)
class DataFile:
    """Something to learn from, or to predict: `kind` is "table", "workbook", "parquet", "npz" or "images".

    `name` is the path below the folder; `bytes` is None for a folder of images or texts.
    """

    name: str
    kind: str
    bytes: int | None


@dataclass(frozen=True)
class Folder:
    """The folder `path`, which is the current one of this process: the commands that are shown work there."""

    path: Path

    def inside(self, written: str, what: str) -> Path:
        """Returns the path below this folder of something that exists there; `what` names it in errors.

        Raises ConfigError for an absolute path, for one that leads out of the folder, also by a symbolic
        link, and for one that does not exist.
        """
        if not written or "\0" in written or len(written) > _LONGEST:
            raise ConfigError(f"{what} {shown(written)} is refused; allowed: a name from the list")
        named = Path(written)
        if named.is_absolute() or ".." in named.parts or not self._holds(self.path / named):
            raise ConfigError(f"{what} {shown(written)} is refused: it leads out of the folder of this page")
        try:
            (self.path / named).stat()
        except OSError as error:
            raise ConfigError(
                f"{what} {shown(written)} cannot be read: {reason(error)}; choose it from the list again"
            ) from error
        return named

    def new(self, written: str, ending: str, what: str) -> Path:
        """Returns the path of a file to write directly in this folder, whether or not it exists.

        Raises ConfigError unless it is a plain name with this ending, and no link that leads out.
        """
        if not _PLAIN_NAME.fullmatch(written) or not written.endswith(ending) or written == ending:
            raise ConfigError(
                f"{what} {shown(written)} is refused; allowed: a name of letters, digits, spaces and . _ - "
                f"that ends in {ending}"
            )
        if not self._holds(self.path / written):
            raise ConfigError(f"{what} {shown(written)} is refused: it leads out of the folder of this page")
        return Path(written)

    def data(self) -> list[DataFile]:
        """Returns what can be learned from, in this folder and in those directly below it."""
        found: list[DataFile] = []
        for path in self._entries(_DEPTH):
            if len(found) == MOST_LISTED:
                break
            if (kind := _data_kind(self.path / path)) is not None:
                size = None if kind == "images" else (self.path / path).stat().st_size
                found.append(DataFile(str(path), kind, size))
        return found

    def tasks(self) -> list[str]:
        """Returns the names of the task files directly in this folder."""
        return [
            str(path) for path in self._entries(1) if path.suffix == ".toml" and _is_task(self.path / path)
        ][:MOST_LISTED]

    def runs(self) -> list[str]:
        """Returns the folders of runs and of swarms that will run, at most two folders deep."""
        return [
            str(path)
            for path in self._entries(_DEPTH)
            if (self.path / path).is_dir() and _is_swarm(self.path / path)
        ][:MOST_LISTED]

    def _holds(self, path: Path) -> bool:
        """Whether a path, with all links followed, is below this folder."""
        try:
            return path.resolve().is_relative_to(self.path.resolve())
        except (OSError, RuntimeError):  # links in a circle
            return False

    def _entries(self, depth: int) -> Iterator[Path]:
        """Yields paths below this folder by name, without hidden ones and those that lead out."""
        waiting, seen = [(Path(), depth)], 0
        while waiting:
            below, left = waiting.pop(0)
            try:
                entries = sorted(os.scandir(self.path / below), key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in entries:
                seen += 1
                if seen > _MOST_SEEN:
                    return
                path = below / entry.name
                if entry.name.startswith(".") or not entry.name.isprintable():
                    continue
                if entry.is_symlink() and not self._holds(self.path / path):
                    continue
                yield path
                if left > 1 and _is_folder(entry):
                    waiting.append((path, left - 1))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _data_kind(path: Path) -> str | None:
    """Returns what kind of data a path holds; None if it holds none."""
    try:
        if path.is_dir():
            return "images" if _has_images(path) else None
        return kind_of(path) if path.is_file() else None
    except (ConfigError, OSError):
        return None


def _has_images(path: Path) -> bool:
    """Whether two or more folders below `path` hold images: a folder for each class."""
    found = 0
    for below in sorted(os.scandir(path), key=lambda entry: entry.name)[:MOST_LISTED]:
        if not below.name.startswith(".") and below.is_dir():
            with os.scandir(below) as entries:
                found += any(Path(entry.name).suffix.lower() in SUFFIXES for entry in entries)
        if found == 2:
            return True
    return False


def _is_swarm(path: Path) -> bool:
    return has_run(path) or any((path / name).is_file() for name in KEPT)


def _is_task(path: Path) -> bool:
    try:
        check_regular(path)
        with path.open("rb") as file:
            return b"\n[task]" in b"\n" + file.read(1 << 16)
    except OSError:
        return False
