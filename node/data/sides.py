"""Decides for each row, or person, alone on which side it is: trained on, or held back for validation.

A row's draw is the first 64 bits, big-endian, of an HMAC-SHA256. Its key is the task's seed in decimal
digits, its message what the file says of the row, before anything is converted:

    "row" | cell | cell | ...     a cell: its length in 8 bytes, big-endian, then its bytes; no cell: 8 x 255

    file                  cells of a row
    CSV and other text    all columns in the order of their names: the text, in the file's encoding
    workbook              the same: the text as node.data.files.excel reads each cell
    Parquet               the same: numbers of any type as the text of their value in float64, NaN as no
                          cell, times without zeros at the end of their fraction
                          cell, times without zeros at the end of their fraction; a list of numbers as these
                          in float32, big-endian
    npz, rows in memory   x in float32, big-endian, number by number; y as text (a number as in Parquet)
    images                the bytes of the image's file

Where data.person names a column, all rows of a person have one draw, of the message

    "person" | cell          the person's name as UTF-8

and the rows' own draws rank a person's rows (node.data.persons).

The row is held back if its draw is below test_fraction * 2^64. So neither the number nor the order of the
rows matters, nor any other row: a file that grows keeps its rows where they were, and equal rows are on one
side. The seed is public: whoever supplies a row can choose its side. That harms the figure, not the privacy.

The type that a column has in Parquet follows from all its cells (integers beside a missing value become
floats), so the text does not depend on it. Only columns of single values, and of lists of numbers, count
there.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from node.data.text.cells import number_text

Draws = NDArray[np.uint64]
NOT_DRAWN: Draws = np.empty(0, np.uint64)
"""The draws of rows for which nobody asked."""

_TAG, _PERSON_TAG = b"row", b"person"
_NO_CELL = b"\xff" * 8
_BLOCK_ROWS = 4096
_PIECE_BYTES = 1 << 20


class Split(StrEnum):
    """How a node's own rows are split."""

    ROW = "row"
    """Each row alone, as above."""
    BEFORE = "before"
    """By a permutation in the order of the labels (partition.hold_out), which depends on all rows."""


def held_back(draws: Draws, fraction: float) -> NDArray[np.bool_]:
    """Returns which rows (n,) are held back for validation; `fraction` is above 0 and below 1."""
    return draws < np.uint64(int(fraction * 2.0**64))


def cell(content: bytes) -> bytes:
    """Returns a cell with its length before it."""
    return len(content).to_bytes(8, "big") + content


class RowDraws:
    """Draws rows under a task's seed; `person`: the column that says whose they are; None: nobody asks."""

    def __init__(self, seed: int, person: str | None = None, *, blank_is_own: bool = False) -> None:
        """`blank_is_own`: whether a row without a person is a person of its own."""
        self._key = str(seed).encode()
        self.person = person
        self.blank_is_own = blank_is_own

    def of_columns(
        self, columns: Sequence[tuple[Sequence[str | bytes], NDArray[np.int64]]], encoding: str
    ) -> Draws:
        """Draws the rows of a table.

        A column is its distinct words, or contents, and for each row (n,) the number of its own, -1 for no
        cell.
        """
        cells = [_cells(words, codes, encoding) for words, codes in columns]
        return self._of(map(b"".join, zip(*cells, strict=True)))

    def of_arrays(self, x: NDArray[np.generic], y: NDArray[np.generic]) -> Draws:
        """Draws rows of numbers `x` (n, ...) with targets `y` (n,), numbers or text."""
        return self._of(
            cell(numbers.tobytes()) + cell(target)
            for numbers, target in zip(_float32(x), _texts(y), strict=True)
        )

    def of_persons(self, names: Sequence[str]) -> Draws:
        """Draws persons by their names."""
        return self._of((cell(name.encode("utf-8", "surrogatepass")) for name in names), _PERSON_TAG)

    def of_files(self, paths: Iterable[Path]) -> Draws:
        """Draws files, a row each. Raises OSError."""
        return np.fromiter(map(self._of_file, paths), np.uint64)

    def _of(self, messages: Iterable[bytes], tag: bytes = _TAG) -> Draws:
        digests = (hmac.digest(self._key, tag + message, "sha256") for message in messages)
        return np.fromiter((int.from_bytes(digest[:8], "big") for digest in digests), np.uint64)

    def _of_file(self, path: Path) -> int:
        with path.open("rb") as file:
            length = file.seek(0, 2)
            file.seek(0)
            code = hmac.new(self._key, _TAG + length.to_bytes(8, "big"), "sha256")
            while piece := file.read(_PIECE_BYTES):
                code.update(piece)
        return int.from_bytes(code.digest()[:8], "big")


def _cells(words: Sequence[str | bytes], codes: NDArray[np.int64], encoding: str) -> list[bytes]:
    """Returns the cell of each row; characters that the encoding lacks, which no file holds, are escaped."""
    contents = (
        word if isinstance(word, bytes) else word.encode(encoding, "backslashreplace") for word in words
    )
    known = [*map(cell, contents), _NO_CELL]  # -1 is the last
    return [known[code] for code in codes.tolist()]


def _texts(y: NDArray[np.generic]) -> Iterator[bytes]:
    """Yields targets (n,), numbers or text, as UTF-8 text."""
    if y.dtype.kind == "S":
        yield from y.tolist()
    elif y.dtype.kind == "U":
        yield from (word.encode("utf-8", "surrogatepass") for word in y.tolist())
    else:
        yield from (number_text(value).encode() for value in y.astype(np.float64).tolist())


def _float32(x: NDArray[np.generic]) -> Iterator[NDArray[np.float32]]:
    """Yields rows (k,) of `x` (n, ...) as big-endian numbers; -0 is 0."""
    for start in range(0, len(x), _BLOCK_ROWS):
        block = x[start : start + _BLOCK_ROWS].astype(np.float32) + np.float32(0)
        yield from block.reshape(len(block), -1).astype(">f4")
