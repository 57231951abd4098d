"""Masks: AES-256-CTR under a 32-byte seed, as little-endian 32-bit words, from any piece on.

One seed, one stream (zero counter at word 0) across the whole vector: two tensors of equal shape never
see the same words. A seed is never used for two vectors.
"""

from __future__ import annotations

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


_BUFFER_WORDS = 1 << 17
_idle: list[Words] = []


def blocks(seed: bytes, start: int, count: int) -> Iterator[tuple[slice, Words]]:
    """(place from 0 on, its words) of the words that `words` gives, in a buffer that each block overwrites.

    A buffer is 512 KiB that stay in the cache; there are as many as threads were ever in here at once.
    Errors as `words`.
    """
    _check(start, count)
    encryptor = _encryptor(seed, start)
    buffer = _borrowed()
    try:
        for first in range(0, count, _BUFFER_WORDS):
            block = buffer[: min(_BUFFER_WORDS, count - first)]
            encryptor.update_into(memoryview(_ZEROS)[: 4 * len(block)], block.data.cast("B"))
            yield slice(first, first + len(block)), block
    finally:
        _idle.append(buffer)


def _borrowed() -> Words:
    """One that nobody else uses: a list's `pop` is atomic."""
    try:
        return _idle.pop()
    except IndexError:
        return np.empty(_BUFFER_WORDS, dtype="<u4")


def _check(start: int, count: int) -> None:
    if start % _BLOCK_WORDS or count > PIECE_WORDS:
        raise LocalProtocolError(f"{count} words from {start}: not from a block's start, or too many")


def _encryptor(seed: bytes, start: int) -> CipherContext:
    counter = (start // _BLOCK_WORDS).to_bytes(16, "big")
    return Cipher(AES(seed), CTR(counter)).encryptor()
