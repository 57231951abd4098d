"""Masks: AES-256-CTR under a 32-byte seed, as little-endian words, from the start of any block.

A seed gives one stream (zero counter at word 0) for the whole vector: two tensors of equal shape never get
the same words. No seed serves two vectors.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from protocol.errors import LocalProtocolError
from protocol.vectors.pieces import PIECE_BYTES, PIECE_WORDS, Words

SEED_BYTES = 32
_BLOCK_BYTES = 16
_ZEROS = bytes(PIECE_BYTES)
_ZERO_BLOCK = memoryview(_ZEROS)


def words(seed: bytes, start: int, count: int) -> Words:
    """32-bit words `start` to `start + count` of the stream, (count,) uint32.

    Raises LocalProtocolError unless `start` is a multiple of 4 (a cipher block) and `count` at most
    PIECE_WORDS.
    """
    encryptor = _encryptor(seed, _block(start, count, 4))
    out = np.empty(count, dtype="<u4")
    encryptor.update_into(memoryview(_ZEROS)[: 4 * count], out.data.cast("B"))
    return out


_BUFFER_BYTES = 1 << 17
_idle: list[NDArray[np.uint8]] = []


class Stream:
    """The stream of one seed, for many parts: it reuses ciphers whose key is set up.

    The stream is one of bytes; its words are as long as those that it is added to. Several threads may use it
    at once: each has its own cipher and buffer.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._ciphers: list[CipherContext] = []

    def add_to(self, target: Words, start: int) -> None:
        """Add the stream's words from `start` to (w,) words of a ring, in place. Raises as `words`."""
        for part, mask in self.blocks(start, target):
            np.add(target[part], mask, out=target[part])

    def subtract_from(self, target: Words, start: int) -> None:
        """Subtract the same words, in place. Raises as `words`."""
        for part, mask in self.blocks(start, target):
            np.subtract(target[part], mask, out=target[part])

    def blocks(self, start: int, target: Words) -> Iterator[tuple[slice, Words]]:
        """Yields (slice of `target`, the words for it) in one cached buffer, which each block overwrites.

        Raises as `words`.
        """
        size = target.itemsize
        cipher = self._cipher(_block(start, len(target), size))
        try:
            buffer = _idle.pop()  # atomic: no other thread gets it
        except IndexError:
            buffer = np.empty(_BUFFER_BYTES, dtype=np.uint8)
        mask = buffer.view(target.dtype)
        try:
            for first in range(0, len(target), len(mask)):
                length = min(len(mask), len(target) - first)
                cipher.update_into(_ZERO_BLOCK[: size * length], buffer.data)
                yield slice(first, first + length), mask[:length]
        finally:
            _idle.append(buffer)
            self._ciphers.append(cipher)

    def _cipher(self, block: bytes) -> CipherContext:
        try:
            cipher = self._ciphers.pop()  # atomic
        except IndexError:
            return _encryptor(self._seed, block)
        cipher.reset_nonce(block)
        return cipher


def _block(start: int, count: int, word_bytes: int) -> bytes:
    """The counter of the block that begins with word `start`."""
    block, beside = divmod(start * word_bytes, _BLOCK_BYTES)
    if beside or count > PIECE_WORDS:
        raise LocalProtocolError(f"{count} words from {start}: not from a block's start, or too many")
    return block.to_bytes(_BLOCK_BYTES, "big")


def _encryptor(seed: bytes, block: bytes) -> CipherContext:
    return Cipher(AES(seed), CTR(block)).encryptor()
