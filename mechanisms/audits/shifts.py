"""How far one record moves what a member offers, exactly: with equal random words the noise cancels.

A member's words for a secure sum are whole numbers: its sum of clipped gradients in units g, rounded, plus
whole noise that depends on the random words alone, modulo 2^32 (mechanisms.gradients.distributed). Two
batches that differ by one record, offered with equal random words, differ by the whole numbers by which the
record moves the sum. Their L2 norm must be at most C / g: no tolerance, no probability of error. A record
beyond it refutes the sensitivity on which every epsilon rests, such as a clip that forgets what rounding
adds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms import arguments


@dataclass(frozen=True, slots=True)
class Shift:
    """The squared L2 norm of a shift in units, and the largest that is allowed; both exact."""

    squared: int
    most: Fraction

    @property
    def allowed(self) -> bool:
        """Whether the shift is at most C / g."""
        return self.squared <= self.most

    @property
    def share(self) -> float:
        """The shift over C / g, rounded."""
        return math.sqrt(Fraction(self.squared) / self.most)


def shift(offered: NDArray[np.uint32], without: NDArray[np.uint32], radius: float, unit: float) -> Shift:
    """Compares the words (d,) of a batch with those of the batch without a record, of equal random words.

    radius: C; unit: g. Raises ValueError for other shapes, or if they are not words.
    """
    if offered.dtype != np.uint32 or without.dtype != np.uint32 or offered.shape != without.shape:
        raise ValueError(
            f"words of {offered.dtype} {offered.shape} and {without.dtype} {without.shape} are not allowed: "
            "uint32 (d,) and the same"
        )
    most = Fraction(arguments.positive("radius", radius)) / Fraction(arguments.positive("unit", unit))
    moved = (offered - without).view(np.int32)
    return Shift(sum(value * value for value in moved.tolist()), most * most)
