"""Reads a folder of texts by class, FOLDER/CLASS/anything.txt, as a table with the columns class and text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from node.data.remedies import OTHER_ENCODING
from node.storage.regular_files import check_regular
from node.system.errors import ConfigError, one_line, shown

CLASS, TEXT = "class", "text"
SUFFIX = ".txt"
_MOST_BYTES = 1 << 20
"""Of one text."""
_MOST_FILES = 5_000_000
_AT_ONCE = 256


def has_texts(path: Path) -> bool:
    """Whether a folder has folders with texts."""
    return next(path.glob(f"[!.]*/[!.]*{SUFFIX}"), None) is not None


def batches_of(path: Path, encoding: str) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a folder, in the order of their names, some at a time.

    Raises ConfigError for too many texts and for one that is too long or no text, OSError for one that
    cannot be read.
    """
    files = sorted(file for file in path.glob(f"[!.]*/[!.]*{SUFFIX}") if not file.is_dir())
    if len(files) > _MOST_FILES:
        raise ConfigError(
            f"data folder {shown(str(path))} has more than {_MOST_FILES} texts; take a part of it"
        )
    for start in range(0, len(files), _AT_ONCE):
        some = files[start : start + _AT_ONCE]
        cells = {CLASS: [file.parent.name for file in some], TEXT: [_text(file, encoding) for file in some]}
        yield pa.record_batch({name: pa.array(texts, pa.string()) for name, texts in cells.items()})


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
