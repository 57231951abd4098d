"""How a flat vector is cut into pieces of about 1 MB, and the digest of a base model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORD_BYTES = 4
PIECE_WORDS = 1 << 18
PIECE_BYTES = WORD_BYTES * PIECE_WORDS

Floats = NDArray[np.float32]
Words = NDArray[np.unsignedinteger[Any]]
"""Words of a ring (protocol.vectors.ring)."""
Vector = NDArray[Any]


def piece_count(dimension: int) -> int:
    """The number of pieces of a vector of `dimension` words."""
    return -(-dimension // PIECE_WORDS)


def piece(dimension: int, index: int) -> slice:
    """The words of piece `index`."""
    return slice(index * PIECE_WORDS, min(dimension, (index + 1) * PIECE_WORDS))


def piece_bytes(dimension: int, index: int) -> int:
    """The length in bytes of piece `index`."""
    part = piece(dimension, index)
    return WORD_BYTES * (int(part.stop) - int(part.start))


def pieces(dimension: int) -> Iterator[tuple[int, slice]]:
    """(index, words) of every piece in order."""
    return ((index, piece(dimension, index)) for index in range(piece_count(dimension)))


def raw(vector: Vector, part: slice) -> memoryview:
    """The bytes of a piece as a read-only view, without a copy.

    `vector` is C-contiguous with 4-byte little-endian items.
    """
    return vector[part].data.cast("B").toreadonly()


def base_digest(parameters: bytes, generation: int, vector: Floats) -> bytes:
    """The name of a base model: SHA-256 of its parameters hash, generation and (d,) little-endian float32."""
    digest = hashlib.sha256(b"murmuration/1/base" + parameters + generation.to_bytes(8, "big"))
    digest.update(raw(np.ascontiguousarray(vector, dtype="<f4"), slice(None)))
    return digest.digest()
