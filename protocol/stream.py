"""Masks: AES-256-CTR under a 32-byte seed, as little-endian 32-bit words, from any piece on.

One seed, one stream (zero counter at word 0) across the whole vector: two tensors of equal shape never
see the same words. A seed is never used for two vectors.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
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
    if start % _BLOCK_WORDS or count > PIECE_WORDS:
        raise LocalProtocolError(f"{count} words from {start}: not from a block's start, or too many")
    counter = (start // _BLOCK_WORDS).to_bytes(16, "big")
    encryptor = Cipher(AES(seed), CTR(counter)).encryptor()
    out = np.empty(count, dtype="<u4")
    encryptor.update_into(memoryview(_ZEROS)[: 4 * count], out.data.cast("B"))
    return out
