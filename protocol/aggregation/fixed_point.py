"""Fixed point in a ring Z_2^w with unbiased stochastic rounding, exact sums, and room for n summands.

    q = floor(clip(x, +-B) s + u),  u ~ U[0, 1),  s = floor((2^(w - 1) - 1) / n) / B - 1 / B

**No overflow.** s B = K - 1 with K = floor((2^(w - 1) - 1) / n), so that |clip(x) s| <= K - 1, |q| <= K, and
n |q| <= n K <= 2^(w - 1) - 1: no sum of n encoded vectors wraps, whatever they held. (In exact numbers |q|
<= K - 1; the 1 is for the rounding of s and of clip(x) s to float64.)

**Error.** Each coordinate is off by less than 1/s, the sum by less than n/s, and so their mean by less than
1/s. E[q] = clip(x) s, and Var[q] = f (1 - f) <= 1/4 for the fraction f of clip(x) s: the sum's variance is at
most n / (4 s^2), the mean's at most 1 / (4 n s^2). (u is the middle of one of 2^32 steps: E[q] is off by
2^-33 of a unit at most.) For B = 4 and n = 10, 1/s is 1.9e-8 with words of 32 bits, and 0.0012 with 16.

Bonawitz et al. 2017, section 6, with the rounding of Kairouz et al. 2021, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.crypto import prg
from protocol.errors import NotFiniteError
from protocol.vectors.pieces import Floats, Vector, Words, pieces
from protocol.vectors.ring import WIDE, Ring

_STEP = 2.0**-32
_BLOCK_WORDS = 1 << 14
"""The block size of encoding and decoding: small enough for a core's cache."""


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """The encoding of coordinates within +-`bound` for groups of `members`."""

    bound: float
    members: int
    ring: Ring = WIDE
    result: str = "<f4"

    def __post_init__(self) -> None:
        if not 0 < self.bound < float("inf"):
            raise ValueError(f"bound {self.bound} must be positive and finite")
        most = self.ring.largest >> self.ring.bits // 2
        if not 1 <= self.members <= most:
            raise ValueError(f"members {self.members} must be 1 to {most}: words have {self.ring.bits} bits")

    @property
    def scale(self) -> float:
        """s: units of the ring per 1.0."""
        return (self.ring.largest // self.members) / self.bound - 1.0 / self.bound

    def encode(self, vector: Floats, seed: bytes) -> tuple[Words, int]:
        """((d,) words, number of clipped coordinates) of a (d,) float32 vector.

        `seed`: 32 secret bytes for the rounding, used once. Raises NotFiniteError on NaN or infinity.
        """
        out = np.empty(len(vector), dtype=self.ring.word)
        clipped = 0
        for _, part in pieces(len(vector)):
            clipped += self.clipped(vector[part])
            out[part] = self.encoded(vector[part], seed, part.start)
        return out, clipped

    def clipped(self, values: Floats) -> int:
        """The number of these (w,) float32 values beyond the bound; NotFiniteError on NaN or infinity."""
        least, most = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
        if not (np.isfinite(least) and np.isfinite(most)):
            raise NotFiniteError("the update holds a NaN or an infinity: nothing is offered")
        if -self.bound <= least and most <= self.bound:
            return 0
        return int(np.count_nonzero(np.abs(values.astype(np.float64)) > self.bound))

    def encoded(self, values: Floats, seed: bytes, start: int) -> Words:
        """(w,) words of these finite (w,) float32 values, which begin at `start` of their vector.

        `start` is the start of a cipher block; w is at most PIECE_WORDS.
        """
        rounding = prg.words(seed, start, len(values))
        out = np.empty(len(values), dtype=self.ring.number)
        for first in range(0, len(values), _BLOCK_WORDS):
            part = slice(first, first + _BLOCK_WORDS)
            exact = values[part].astype(np.float64)
            np.clip(exact, -self.bound, self.bound, out=exact)
            exact *= self.scale
            unit = rounding[part] + 0.5
            unit *= _STEP
            exact += unit
            np.floor(exact, out=exact)
            out[part] = exact
        return out.view(self.ring.word)

    def decode_sum(self, total: Words) -> NDArray[np.float64]:
        """(d,) float64: the sum of `members` encoded vectors from their (d,) ring sum, within n/s."""
        return total.view(self.ring.number) / self.scale

    def decode(self, total: Words, summands: int, out: Vector) -> None:
        """Write the (w,) float32 mean of `summands` encoded vectors; `total`: their (w,) ring sum."""
        for first in range(0, len(total), _BLOCK_WORDS):
            part = slice(first, first + _BLOCK_WORDS)
            out[part] = self.decode_sum(total[part]) / summands
