"""The rule, common to all readers, for which cells are numbers and which are missing values.

docs/data.md states it for users.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MISSING_WORDS = frozenset({"", "?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null"})
LARGEST = 1e30
"""The largest absolute value of a number, in text or arrays, which is near the limit of float32."""
A_NUMBER = "a number (decimals have a point; at most 1e30)"
FINITE = "a finite number of at most 1e30"
"""The words of messages, for text and for arrays."""


def number(cell: str) -> float | None:
    """Returns the number in `cell`: ASCII digits, sign, point, exponent, white space around; otherwise None.

    NaN, infinities, values beyond LARGEST, and Python's own 1_000 are not numbers.

    >>> number(" +1.5e3 ")
    1500.0
    >>> number("1_000") is number("inf") is number("1,5") is None
    True
    """
    bare = cell.strip()
    if "_" in bare or not bare.isascii():  # float() accepts both, and the digits of any script
        return None
    try:
        value = float(bare)
    except ValueError:
        return None
    return value if abs(value) <= LARGEST else None


def no_numbers(values: NDArray) -> NDArray[np.bool_]:
    """Returns True where a bool, int or float array holds no number by the same rule: NaN, or too large."""
    if values.dtype.kind != "f":
        return np.zeros(values.shape, np.bool_)
    return ~(np.abs(values) <= np.float64(LARGEST))


def all_numbers(values: NDArray) -> bool:
    """Returns whether `no_numbers` is False everywhere, without a second array; True if there are none."""
    if values.dtype.kind != "f" or not values.size:
        return True
    most = np.float64(LARGEST)
    return bool(-most <= values.min() and values.max() <= most)


def is_value(cell: str) -> bool:
    """Returns whether `cell` is a number or a word for a missing value, and so is not a column's name."""
    bare = cell.strip()
    return number(bare) is not None or (bare != "" and bare in MISSING_WORDS)
