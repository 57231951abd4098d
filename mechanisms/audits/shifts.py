"""Measures exactly how far one record moves what a member offers: with equal random words the noise cancels.

A member's words for a secure sum are whole numbers modulo 2^32: its sum of clipped gradients, rounded to
units g, plus whole-numbered noise, which depends on the random words alone
(mechanisms.gradients.shared_noise). Offer two batches that differ by one record, with equal random words. The
difference of their words is how far the record moves the sum. Its L2 norm must be at most C / g, without
tolerance or probability of error. A larger one refutes the sensitivity on which every epsilon rests: a clip
may forget what rounding adds, for example.
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
    """The squared L2 norm of a shift in units, and the most that is allowed, (C / g)^2; both exact."""

    squared: int
    most: Fraction

    @property
    def is_allowed(self) -> bool:
        """Whether the shift is at most C / g."""
        return self.squared <= self.most

    @property
    def share(self) -> float:
        """The shift over C / g, rounded."""
        return math.sqrt(Fraction(self.squared) / self.most)


def shift(offered: NDArray[np.uint32], without: NDArray[np.uint32], radius: float, unit: float) -> Shift:
    """Returns the shift between the words (d,) of a batch and those of the batch without one record.

    Both were offered with equal random words. radius: C; unit: g. Raises ValueError unless both are uint32 of
    one shape (d,).
    """
    if offered.dtype != np.uint32 or without.dtype != np.uint32 or offered.shape != without.shape:
        raise ValueError(
            f"words of {offered.dtype} {offered.shape} and {without.dtype} {without.shape} are not allowed: "
            "uint32 (d,) and the same"
        )
    most = Fraction(arguments.positive("radius", radius)) / Fraction(arguments.positive("unit", unit))
    moved = (offered - without).view(np.int32)
    return Shift(sum(value * value for value in moved.tolist()), most * most)
