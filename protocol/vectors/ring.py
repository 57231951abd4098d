"""The rings in which sums are computed: words of 32 bits, or of 16 at half the bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_CIPHER_BITS = 128
_COUNT_BITS = 32


@dataclass(frozen=True, slots=True)
class Ring:
    """Z_2^`bits`: its words are unsigned and little-endian, and stand for whole numbers around 0."""

    bits: int

    @property
    def word_bytes(self) -> int:
        """The bytes of a word."""
        return self.bits // 8

    @property
    def word(self) -> np.dtype[np.unsignedinteger[Any]]:
        """The type of a word."""
        return np.dtype(f"<u{self.word_bytes}")

    @property
    def number(self) -> np.dtype[np.signedinteger[Any]]:
        """The type of the whole number that a word stands for."""
        return np.dtype(f"<i{self.word_bytes}")

    @property
    def largest(self) -> int:
        """The largest whole number: 2^(bits - 1) - 1."""
        return (1 << self.bits - 1) - 1

    @property
    def counts(self) -> int:
        """The words, of 32 bits together, in which each member adds a 1: a wrong mask shows in their sum."""
        return _COUNT_BITS // self.bits

    @property
    def block_words(self) -> int:
        """The words of a cipher block."""
        return _CIPHER_BITS // self.bits


WIDE, NARROW = Ring(32), Ring(16)
RINGS = {ring.bits: ring for ring in (WIDE, NARROW)}
"""All rings, by the bits of their words."""
