"""Masks: AES-256-CTR under a 32-byte seed, as little-endian 32-bit words, from any piece on.

One seed, one stream (zero counter at word 0) across the whole vector: two tensors of equal shape never
see the same words. A seed is never used for two vectors.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from protocol.errors import LocalProtocolError
from protocol.vectors import PIECE_WORDS, Words

SEED_BYTES = 32
_BLOCK_WORDS = 4
_ZEROS = bytes(4 * PIECE_WORDS)


def words(seed: bytes, start: int, count: int) -> Words:
    """Words `start` to `start + count` of the stream, (count,) uint32.

    `start` is a multiple of 4 (a cipher block), `count` at most PIECE_WORDS: else LocalProtocolError.
    """
    _check(start, count)
    encryptor = _encryptor(seed, start)
    out = np.empty(count, dtype="<u4")
    encryptor.update_into(memoryview(_ZEROS)[: 4 * count], out.data.cast("B"))
    return out


_BUFFER_WORDS = 1 << 16
_here = threading.local()


def blocks(seed: bytes, start: int, count: int) -> Iterator[tuple[slice, Words]]:
    """(place from 0 on, its words) of the words that `words` gives, in a buffer that each block overwrites.

    Every thread has one buffer, 256 KiB that stay in its core's cache: be done with a block, and with one
    stream, before the next. Errors as `words`.
    """
    _check(start, count)
    encryptor = _encryptor(seed, start)
    buffer = _buffer()
    for first in range(0, count, _BUFFER_WORDS):
        length = min(_BUFFER_WORDS, count - first)
        block = buffer[:length]
        encryptor.update_into(memoryview(_ZEROS)[: 4 * length], block.data.cast("B"))
        yield slice(first, first + length), block


def _buffer() -> Words:
    """This thread's: uint32, little-endian."""
    if not hasattr(_here, "buffer"):
        _here.buffer = np.empty(_BUFFER_WORDS, dtype="<u4")
    buffer: Words = _here.buffer
    return buffer


def _check(start: int, count: int) -> None:
    if start % _BLOCK_WORDS or count > PIECE_WORDS:
        raise LocalProtocolError(f"{count} words from {start}: not from a block's start, or too many")


def _encryptor(seed: bytes, start: int) -> CipherContext:
    counter = (start // _BLOCK_WORDS).to_bytes(16, "big")
    return Cipher(AES(seed), CTR(counter)).encryptor()
