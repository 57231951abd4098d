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
from protocol.vectors.pieces import PIECE_WORDS, Words

SEED_BYTES = 32
_BLOCK_WORDS = 4
_ZEROS = bytes(4 * PIECE_WORDS)
_ZERO_BLOCK = memoryview(_ZEROS)


def words(seed: bytes, start: int, count: int) -> Words:
    """Words `start` to `start + count` of the stream, (count,) uint32.

    `start` is a multiple of 4 (a cipher block), `count` at most PIECE_WORDS: else LocalProtocolError.
    """
    _check(start, count)
    encryptor = _encryptor(seed, start)
    out = np.empty(count, dtype="<u4")
    encryptor.update_into(memoryview(_ZEROS)[: 4 * count], out.data.cast("B"))
    return out


_BUFFER_WORDS = 1 << 15
_idle: list[Words] = []


class Stream:
    """The stream of one seed, where many parts of it are needed: the key is set up once.

    Several threads may be in here at once: each has a cipher and a buffer of its own.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._ciphers: list[CipherContext] = []

    def add_to(self, target: Words, start: int) -> None:
        """Add words `start` on to (w,) uint32, in place, modulo 2^32. Errors as `words`."""
        for part, mask in self.blocks(start, len(target)):
            np.add(target[part], mask, out=target[part])

    def subtract_from(self, target: Words, start: int) -> None:
        """Take the same words out again, in place, modulo 2^32."""
        for part, mask in self.blocks(start, len(target)):
            np.subtract(target[part], mask, out=target[part])

    def blocks(self, start: int, count: int) -> Iterator[tuple[slice, Words]]:
        """(place from 0 on, its words), in a buffer that stays in the cache: each block overwrites it.

        Errors as `words`.
        """
        _check(start, count)
        cipher = self._cipher(start)
        buffer = _borrowed()
        whole = buffer.data.cast("B")
        try:
            for first in range(0, count, _BUFFER_WORDS):
                length = min(_BUFFER_WORDS, count - first)
                cipher.update_into(_ZERO_BLOCK[: 4 * length], whole)
                yield slice(first, first + length), buffer[:length]
        finally:
            _idle.append(buffer)
            self._ciphers.append(cipher)

    def _cipher(self, start: int) -> CipherContext:
        try:
            cipher = self._ciphers.pop()  # atomic
        except IndexError:
            return _encryptor(self._seed, start)
        cipher.reset_nonce(_counter(start))
        return cipher


def _borrowed() -> Words:
    """One that nobody else uses: a list's `pop` is atomic."""
    try:
        return _idle.pop()
    except IndexError:
        return np.empty(_BUFFER_WORDS, dtype="<u4")


def _check(start: int, count: int) -> None:
    if start % _BLOCK_WORDS or count > PIECE_WORDS:
        raise LocalProtocolError(f"{count} words from {start}: not from a block's start, or too many")


def _counter(start: int) -> bytes:
    return (start // _BLOCK_WORDS).to_bytes(16, "big")


def _encryptor(seed: bytes, start: int) -> CipherContext:
    return Cipher(AES(seed), CTR(_counter(start))).encryptor()
