"""What one cell says: the one rule, for every reader, of what a number is, and of what is no value.

It is stated for people in docs/data.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MISSING_WORDS = frozenset({"", "?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null"})
LARGEST = 1e30
"""No number is larger, nor smaller than its negative, in text or in arrays: float32 is near its end."""
A_NUMBER = "a number (decimals have a point; at most 1e30)"
FINITE = "a finite number of at most 1e30"
"""As messages have them, of text and of arrays."""


def number(cell: str) -> float | None:
    """The number in `cell`: ASCII digits, a sign, a point, an exponent, white space around; None for another.

    NaN, infinities, what lies beyond LARGEST, and Python's own 1_000 are none.

    >>> number(" +1.5e3 ")
    1500.0
    >>> number("1_000") is number("inf") is number("1,5") is None
    True
    """
    bare = cell.strip()
    if "_" in bare or not bare.isascii():  # float() takes both, and the digits of any script
        return None
    try:
        value = float(bare)
    except ValueError:
        return None
    return value if abs(value) <= LARGEST else None


def no_numbers(values: NDArray) -> NDArray[np.bool_]:
    """Where an array of bool, int or float holds what is no number by the same rule: NaN, or too large."""
    if values.dtype.kind != "f":
        return np.zeros(values.shape, np.bool_)
    return ~(np.abs(values) <= np.float64(LARGEST))


def is_value(cell: str) -> bool:
    """Whether `cell` is a number or a word for no value, and so is no name of a column."""
    bare = cell.strip()
    return number(bare) is not None or (bare != "" and bare in MISSING_WORDS)
