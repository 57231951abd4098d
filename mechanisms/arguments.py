"""Checks of arguments: each function returns a plain number, or raises an error that names the value.

They raise ValueError for a number out of range and TypeError for anything else, with a one-line message such
as `epsilon = -1.0 is not allowed: a number above 0`. NaN, infinity and booleans are never allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real


def positive(name: str, value: object) -> float:
    """Returns `value` as a float: finite and above 0."""
    return _number(name, value, "a number above 0", lambda number: number > 0)


def at_least_zero(name: str, value: object) -> float:
    """Returns `value` as a float: finite, 0 or above."""
    return _number(name, value, "a number of at least 0", lambda number: number >= 0)


def probability(name: str, value: object) -> float:
    """Returns `value` as a float strictly between 0 and 1, as every delta must be."""
    return _number(name, value, "a number above 0 and below 1", lambda number: 0 < number < 1)


def share(name: str, value: object) -> float:
    """Returns `value` as a float above 0 and at most 1, such as a sampling probability."""
    return _number(name, value, "a number above 0 and at most 1", lambda number: 0 < number <= 1)


def count(name: str, value: object) -> int:
    """Returns `value` as an int of at least 1; 2.0 is not an int."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} = {value!r} is not allowed: a whole number of at least 1")
    if value < 1:
        raise ValueError(f"{name} = {value!r} is not allowed: a whole number of at least 1")
    return int(value)


def _number(name: str, value: object, allowed: str, is_in_range: Callable[[float], bool]) -> float:
    """Returns `value` as a float. NumPy's scalars are numbers; strings, arrays and booleans are not."""
    message = f"{name} = {value!r} is not allowed: {allowed}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(message)
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(message) from None
    if not math.isfinite(number) or not is_in_range(number):
        raise ValueError(message)
    return number
