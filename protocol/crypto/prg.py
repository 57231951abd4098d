"""Masks: AES-256-CTR under a 32-byte seed, as little-endian 32-bit words, from the start of any block.

A seed gives one stream (zero counter at word 0) for the whole vector: two tensors of equal shape never get
the same words. No seed serves two vectors.
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

    Raises LocalProtocolError unless `start` is a multiple of 4 (a cipher block) and `count` at most
    PIECE_WORDS.
    """
    _check(start, count)
    encryptor = _encryptor(seed, start)
    out = np.empty(count, dtype="<u4")
    encryptor.update_into(memoryview(_ZEROS)[: 4 * count], out.data.cast("B"))
    return out


_BUFFER_WORDS = 1 << 15
_idle: list[Words] = []


class Stream:
    """The stream of one seed, for many parts: it reuses ciphers whose key is set up.

    Several threads may use it at once: each has its own cipher and buffer.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._ciphers: list[CipherContext] = []

    def add_to(self, target: Words, start: int) -> None:
        """Add the stream's words from `start` to (w,) uint32, in place, modulo 2^32. Raises as `words`."""
        for part, mask in self.blocks(start, len(target)):
            np.add(target[part], mask, out=target[part])

    def subtract_from(self, target: Words, start: int) -> None:
        """Subtract the same words, in place, modulo 2^32. Raises as `words`."""
        for part, mask in self.blocks(start, len(target)):
            np.subtract(target[part], mask, out=target[part])

    def blocks(self, start: int, count: int) -> Iterator[tuple[slice, Words]]:
        """Yields (slice counted from 0, its words) in one cached buffer, which each block overwrites.

        Raises as `words`.
        """
        _check(start, count)
        cipher = self._cipher(start)
        try:
            buffer = _idle.pop()  # atomic: no other thread gets it
        except IndexError:
            buffer = np.empty(_BUFFER_WORDS, dtype="<u4")
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


def _check(start: int, count: int) -> None:
    if start % _BLOCK_WORDS or count > PIECE_WORDS:
        raise LocalProtocolError(f"{count} words from {start}: not from a block's start, or too many")


def _counter(start: int) -> bytes:
    return (start // _BLOCK_WORDS).to_bytes(16, "big")


def _encryptor(seed: bytes, start: int) -> CipherContext:
    return Cipher(AES(seed), CTR(_counter(start))).encryptor()
