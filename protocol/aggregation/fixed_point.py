"""Fixed point in Z_2^32 with unbiased stochastic rounding, exact sums, and room for n summands.

q = floor(clip(x, +-B) s + u), u ~ U[0, 1);  s = floor((2^31 - 1) / n) / B - 1 / B, so that |q| <= s B + 1
and n (s B + 1) < 2^31: no n clipped inputs wrap. Each coordinate is off by less than 1/s, the sum by less
than n/s, with variance at most n / (4 s^2). Bonawitz et al. 2017, section 6, with the rounding of
Kairouz et al. 2021, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.crypto import prg
from protocol.errors import NotFiniteError
from protocol.vectors.pieces import Floats, Words, pieces

_WORD = 2.0**-32
_BLOCK_WORDS = 1 << 14
"""The block size of the encoding: small enough for a core's cache."""
MIN_UNITS = 1 << 16


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """The encoding of coordinates within +-`bound` for groups of `members`."""

    bound: float
    members: int

    def __post_init__(self) -> None:
        if not 0 < self.bound < float("inf"):
            raise ValueError(f"bound {self.bound} must be positive and finite")
        if not 1 <= self.members <= (2**31 - 1) // MIN_UNITS:
            raise ValueError(f"members {self.members} must be 1 to {(2**31 - 1) // MIN_UNITS}")

    @property
    def scale(self) -> float:
        """s: units of the ring per 1.0."""
        return ((2**31 - 1) // self.members) / self.bound - 1.0 / self.bound

    def encode(self, vector: Floats, seed: bytes) -> tuple[Words, int]:
        """((d,) uint32 words, number of clipped coordinates) of a (d,) float32 vector.

        `seed`: 32 secret bytes for the rounding, used once. Raises NotFiniteError on NaN or infinity.
        """
        out = np.empty(len(vector), dtype="<u4")
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
        """(w,) uint32 words of these finite (w,) float32 values, which begin at `start` of their vector.

        `start` is the start of a cipher block; w is at most PIECE_WORDS.
        """
        rounding = prg.words(seed, start, len(values))
        out = np.empty(len(values), dtype="<i4")
        for first in range(0, len(values), _BLOCK_WORDS):
            part = slice(first, first + _BLOCK_WORDS)
            exact = values[part].astype(np.float64)
            np.clip(exact, -self.bound, self.bound, out=exact)
            exact *= self.scale
            unit = rounding[part] + 0.5
            unit *= _WORD
            exact += unit
            np.floor(exact, out=exact)
            out[part] = exact
        return out.view("<u4")

    def decode_sum(self, total: Words) -> NDArray[np.float64]:
        """(d,) float64: the sum of `members` encoded vectors from their (d,) ring sum, within n/s."""
        return total.view("<i4") / self.scale

    def decode(self, total: Words, summands: int) -> Floats:
        """(d,) float32 mean of `summands` encoded vectors, from their ring sum, which it overwrites."""
        mean = total.view("<f4")
        for _, part in pieces(len(total)):
            mean[part] = self.decode_sum(total[part]) / summands
        return mean
