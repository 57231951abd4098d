"""How a member's vector becomes words of the ring Z_2^32, and what the sum of words stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from protocol.aggregation.fixed_point import FixedPoint
from protocol.vectors.pieces import Vector, Words


class Encoding(Protocol):
    """The encoding of vectors for groups of `members`; all members use the same one."""

    @property
    def members(self) -> int:
        """The number of members of a group."""

    def encode(self, vector: Vector, seed: bytes) -> tuple[Words, int]:
        """((d,) words in a new array, number of clipped coordinates) of a (d,) vector.

        `seed`: 32 secret bytes, used once.
        """

    def clipped(self, values: Vector) -> int:
        """The number of these values beyond the bound. Raises NotFiniteError on NaN or infinity."""

    def encoded(self, values: Vector, seed: bytes, start: int) -> Words:
        """(w,) words of these values, which begin at `start` of their vector, with its seed."""

    def decode(self, total: Words, summands: int) -> Vector:
        """What the ring sum (d,) of `summands` encoded vectors stands for; it may overwrite `total`."""


@dataclass(frozen=True, slots=True)
class WholeNumbers:
    """Vectors of words already, and their sum as the result.

    A word stands for a whole number modulo 2^32. Whoever makes the vectors knows the unit, and sees to it
    that the sum has room (mechanisms.gradients.shared_noise).
    """

    members: int

    def encode(self, vector: Vector, seed: bytes) -> tuple[Words, int]:
        """A copy of the words; none is clipped."""
        return vector.astype("<u4"), 0

    def clipped(self, values: Vector) -> int:
        """0: a word is never out of bounds."""
        return 0

    def encoded(self, values: Vector, seed: bytes, start: int) -> Words:
        """These words."""
        return np.asarray(values, dtype="<u4")

    def decode(self, total: Words, summands: int) -> Vector:
        """The (d,) uint32 words of the sum."""
        return total


def encoding_of(bound: float | None, members: int) -> Encoding:
    """Fixed point for coordinates within +-`bound`; whole numbers if `bound` is None."""
    return WholeNumbers(members) if bound is None else FixedPoint(bound, members)
