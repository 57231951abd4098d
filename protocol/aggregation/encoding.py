"""How a member's vector becomes words of a ring, and what the sum of words stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from protocol.aggregation.fixed_point import FixedPoint
from protocol.vectors.pieces import Vector, Words
from protocol.vectors.ring import WIDE, Ring


class Encoding(Protocol):
    """The encoding of vectors for groups of `members`; all members use the same one."""

    @property
    def members(self) -> int:
        """The number of members of a group."""

    @property
    def ring(self) -> Ring:
        """The ring of the words."""

    @property
    def result(self) -> str:
        """The type of a coordinate of the result: float32 or uint32."""

    def encode(self, vector: Vector, seed: bytes) -> tuple[Words, int]:
        """((d,) words in a new array, number of clipped coordinates) of a (d,) vector.

        `seed`: 32 secret bytes, used once.
        """

    def clipped(self, values: Vector) -> int:
        """The number of these values beyond the bound. Raises NotFiniteError on NaN or infinity."""

    def encoded(self, values: Vector, seed: bytes, start: int) -> Words:
        """(w,) words of these values, which begin at `start` of their vector, with its seed."""

    def decode(self, total: Words, summands: int, out: Vector) -> None:
        """Write into `out` what the ring sum (w,) of `summands` encoded vectors stands for.

        `out`: (w,) of the type `result`; it may share its memory with `total`, if their items are as long.
        """


@dataclass(frozen=True, slots=True)
class WholeNumbers:
    """Vectors of words already, and their sum as the result.

    A word stands for a whole number modulo 2^32. Whoever makes the vectors knows the unit, and sees to it
    that the sum has room (mechanisms.gradients.shared_noise).
    """

    members: int
    ring: Ring = WIDE
    result: str = "<u4"

    def encode(self, vector: Vector, seed: bytes) -> tuple[Words, int]:
        """A copy of the words; none is clipped."""
        return vector.astype("<u4"), 0

    def clipped(self, values: Vector) -> int:
        """0: a word is never out of bounds."""
        return 0

    def encoded(self, values: Vector, seed: bytes, start: int) -> Words:
        """These words."""
        return np.asarray(values, dtype="<u4")

    def decode(self, total: Words, summands: int, out: Vector) -> None:
        """Write the words of the sum."""
        out[:] = total


def encoding_of(bound: float | None, members: int, ring: Ring = WIDE) -> Encoding:
    """Fixed point for coordinates within +-`bound`; whole numbers, of 32 bits, if `bound` is None."""
    return WholeNumbers(members) if bound is None else FixedPoint(bound, members, ring)
