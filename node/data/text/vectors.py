"""Cells as vectors of features: texts by their words or by a sentence encoder, and lists of numbers.

A vector x becomes 2 x / |x|: no row is larger than another, and no scale of anybody's rows has to be agreed
on. At a larger length few rows are learned by heart, at length 1 steps are slow (docs/results/README.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from node.data.text.cells import no_numbers
from node.data.text.columns import Words
from node.data.text.hashing import MOST_CHARACTERS, hashed
from node.data.text.sentences import encoded, find_encoder
from node.system.errors import ConfigError, counted, shown
from node.task.data_schema import HASHED, TextColumn

Vectors = NDArray[np.float32]
LENGTH = 2.0
"""Of each vector."""


def is_vectors(kind: pa.DataType) -> bool:
    """Whether cells of this type are lists of numbers."""
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in lists) and bool(
        pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)
    )


@dataclass(frozen=True)
class Encoded:
    """Vectors (n, width) of texts or lists, 0 for a missing one, and what to tell of them."""

    vectors: Vectors
    missing: NDArray[np.bool_]
    remark: str = ""


def text_vectors(column: TextColumn, words: Words, encoder_at: str | None) -> Encoded:
    """Returns the vectors of texts, each computed once.

    Raises ConfigError if the sentence encoder that the column names is not at `encoder_at`.
    """
    if column.encoder == HASHED:
        vectors, cut = hashed(words.words, column.width), sum(len(w) > MOST_CHARACTERS for w in words.words)
    else:
        encoder = find_encoder(encoder_at)
        if (encoder.digest, encoder.width) != (column.encoder, column.width):
            raise ConfigError(
                f"the text of column {shown(column.name)} is encoded by the sentence encoder "
                f"{column.encoder[:16]}..., of {column.width} numbers; {shown(str(encoder.folder))} has "
                f"{encoder.digest[:16]}..., of {encoder.width}; name the folder of the right one with "
                "--encoder FOLDER"
            )
        vectors, cut = encoded(encoder, words.words)
    scaled = np.concatenate([_scaled(vectors), np.zeros((1, column.width), np.float32)])  # code -1: the last
    remark = f"{counted(cut, 'text')} too long, read in part" if cut else ""
    return Encoded(scaled[words.codes], words.missing, remark)


def list_vectors(cells: pa.ChunkedArray, width: int) -> Encoded | int:
    """Returns the vectors of lists of `width` numbers; the first row, from 0, that holds something else."""
    missing = cells.is_null().to_numpy()
    lengths = pc.fill_null(pc.list_value_length(cells), width).to_numpy()
    if (wrong := np.flatnonzero(lengths != width)).size:
        return int(wrong[0])
    numbers = pc.list_flatten(cells).cast(pa.float64()).to_numpy().reshape(-1, width)
    there = np.flatnonzero(~missing)
    if (wrong := np.flatnonzero(no_numbers(numbers).any(1))).size:
        return int(there[wrong[0]])
    vectors = np.zeros((len(missing), width), np.float32)
    vectors[there] = _scaled(numbers.astype(np.float32))
    return Encoded(vectors, missing)


def list_bytes(cells: pa.ChunkedArray) -> tuple[list[bytes], NDArray[np.int64]]:
    """Returns the lists as big-endian float32, and which of them each row (n,) has, -1 for none."""
    missing = cells.is_null().to_numpy()
    ends = np.cumsum(pc.list_value_length(cells).drop_null().to_numpy())
    numbers = pc.list_flatten(cells).cast(pa.float32(), safe=False).to_numpy() + np.float32(0)
    lists = [part.astype(">f4").tobytes() for part in np.split(numbers, ends[:-1])] if len(ends) else []
    return lists, np.where(missing, -1, np.cumsum(~missing) - 1)


def width_of(cells: pa.ChunkedArray) -> int | None:
    """Returns how many numbers each list has; None if they differ, or no row has a list."""
    found = pc.unique(pc.list_value_length(cells)).drop_null()
    return int(found[0].as_py()) if len(found) == 1 and found[0].as_py() > 0 else None


def _scaled(vectors: Vectors) -> Vectors:
    """Returns vectors (n, k) of length 2; a vector of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    factors = LENGTH / np.where(lengths == 0, 1, lengths)  # (n, 1)
    return (vectors * factors).astype(np.float32)
