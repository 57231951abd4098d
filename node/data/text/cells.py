"""The rule, common to all readers, for which cells are numbers and which are missing values.

docs/data.md states it for users.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from node.task.dialect import DECIMALS, THOUSANDS, Dialect

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


_SIGN = re.compile(r"([<>\u2264\u2265]=?|[~\u2248])\s*")


def without_sign(cell: str) -> tuple[str, str]:
    """Returns the sign of a limit before a number, "" if there is none, and the rest."""
    found = _SIGN.match(cell)
    return (found[1], cell[found.end() :]) if found else ("", cell)


@cache
def number_reader(dialect: Dialect, unit: str | None = None) -> Callable[[str], float | None]:
    """Returns the function that reads a number as `dialect` writes it; NaN for one that means no value.

    `unit` may stand after a number. Limits such as <0.6 and words are numbers, or no value, if the dialect
    says so: `below` and `words`.

    >>> number_reader(Dialect(below="half"), "mg/l")("<0.6 mg/l")
    0.3
    """
    plain = _marked_reader(dialect)
    if dialect.below is None and dialect.words is None and unit is None:
        return plain

    def read(cell: str) -> float | None:
        bare = cell.strip()
        sign, rest = without_sign(bare) if dialect.below is not None else ("", bare)
        value = plain(rest if unit is None else rest.removesuffix(unit))
        if value is not None:
            return _of_limit(sign, value, dialect.below)
        return math.nan if dialect.words is not None and is_word(bare) else None

    return read


def is_word(cell: str) -> bool:
    """Returns whether `cell` has a letter, and nothing of a number: no digit, and it is no infinity.

    >>> [is_word(cell) for cell in ("positive", "n.d.", "1a", "-", "-inf")]
    [True, True, False, False, False]
    """
    try:
        float(cell)
    except ValueError:
        return any(map(str.isalpha, cell)) and not any(map(str.isnumeric, cell))
    return False


def _of_limit(sign: str, value: float, below: str | None) -> float:
    """Returns the number for a limit `value` with this sign; ~5 is 5."""
    if sign in {"", "~", "\u2248"}:
        return value
    if below == "missing":
        return math.nan
    return value / 2 if below == "half" and sign[0] in "<\u2264" and value > 0 else value


@cache
def _marked_reader(dialect: Dialect) -> Callable[[str], float | None]:
    """Returns the function that reads a number with the marks of `dialect`: `number`, unless it has others.

    Groups of three digits must be complete: 1.234,5 and 1234,5 are numbers with a decimal comma, 1.23,5 is
    none. An exponent may follow.

    >>> _marked_reader(Dialect(decimal="comma", thousands="point"))("-1.234,5")
    -1234.5
    """
    if dialect.decimal == "point" and dialect.thousands is None:
        return number
    mark = DECIMALS[dialect.decimal]
    between = THOUSANDS[dialect.thousands] if dialect.thousands else ""
    grouped = rf"[1-9]\d{{0,2}}(?:[{between}]\d{{3}})+|" if between else ""
    fits = re.compile(
        rf"[+-]?(?:(?:{grouped}\d+){re.escape(mark)}?\d*|{re.escape(mark)}\d+)(?:[eE][+-]?\d+)?"
    )
    plain = str.maketrans({mark: ".", **dict.fromkeys(between)})

    def read(cell: str) -> float | None:
        bare = cell.strip()
        return number(bare.translate(plain)) if fits.fullmatch(bare) else None

    return read


def a_number(dialect: Dialect) -> str:
    """Returns the words of messages for what a number is in `dialect`."""
    if dialect.decimal == "point" and dialect.thousands is None:
        return A_NUMBER
    groups = f", thousands may have {dialect.thousands}s" if dialect.thousands else ""
    return f"a number (decimals have a {dialect.decimal}{groups}; at most 1e30)"


def number_text(value: float) -> str:
    """Returns a number that a file stores as such as text; whole numbers have no point.

    >>> number_text(5.0), number_text(-0.0), number_text(0.1)
    ('5', '0', '0.1')
    """
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


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
