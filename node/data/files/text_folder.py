"""Reads a folder of texts as a table: FOLDER/CLASS/anything.txt, or FOLDER/anything.txt without classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from node.data.remedies import OTHER_ENCODING
from node.storage.regular_files import check_regular
from node.system.errors import ConfigError, one_line, shown

CLASS, TEXT = "class", "text"
SUFFIX = ".txt"
_OWN = f"[!.]*{SUFFIX}"
_OF_CLASSES = f"[!.]*/{_OWN}"
_MOST_BYTES = 1 << 20
"""Of one text."""
_MOST_FILES = 5_000_000
_AT_ONCE = 256


def has_texts(path: Path) -> bool:
    """Whether a folder has folders with texts."""
    return next(path.glob(_OF_CLASSES), None) is not None


@dataclass(frozen=True)
class TextFolder:
    """The texts of a folder, in the order of their names."""

    path: Path
    files: Sequence[Path]
    columns: tuple[str, ...]
    """CLASS and TEXT, or TEXT alone."""

    @property
    def names(self) -> list[str]:
        """The name of each file in the folder."""
        return [file.relative_to(self.path).as_posix() for file in self.files]

    def batches(self, encoding: str) -> Iterator[pa.RecordBatch]:
        """Yields the rows, some at a time.

        Raises ConfigError for a text that is too long or none, OSError for one that cannot be read.
        """
        for start in range(0, len(self.files), _AT_ONCE):
            some = self.files[start : start + _AT_ONCE]
            cells = {TEXT: [_text(file, encoding) for file in some]}
            if CLASS in self.columns:
                cells[CLASS] = [file.parent.name for file in some]
            yield pa.record_batch({name: pa.array(cells[name], pa.string()) for name in self.columns})


def list_texts(path: Path) -> TextFolder:
    """Returns the texts in the folders of a folder, by class, or else those in itself.

    Raises ConfigError for too many.
    """
    by_class = _found(path, _OF_CLASSES)
    files = by_class or _found(path, _OWN)
    if len(files) > _MOST_FILES:
        raise ConfigError(
            f"data folder {shown(str(path))} has more than {_MOST_FILES} texts; take a part of it"
        )
    return TextFolder(path, files, (CLASS, TEXT) if by_class else (TEXT,))


def _found(path: Path, pattern: str) -> list[Path]:
    return sorted(file for file in path.glob(pattern) if not file.is_dir())


def _text(file: Path, encoding: str) -> str:
    check_regular(file)
    if file.stat().st_size > _MOST_BYTES:
        raise ConfigError(
            f"data file {one_line(str(file))} has more than {_MOST_BYTES} bytes, the most of a text"
        )
    try:
        text = file.read_bytes().decode(encoding)
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"data file {one_line(str(file))} is not {encoding} text ({error.reason} at byte {error.start}); "
            f"save it as that, or say how all are written: {OTHER_ENCODING}"
        ) from None
    if "\0" in text:
        raise ConfigError(f"data file {one_line(str(file))} has a zero byte, so it is no text; take it away")
    return text
