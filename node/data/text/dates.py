"""Reads dates and times of day: which texts are dates, and their number of days or hours."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache

from node.data.text.month_names import numbered
from node.task.dialect import DateOrder, Months

_LONGEST_YEAR = 4
_DAY_S = 86_400
_CENTURY_FROM = 69
"""Two digits of a year mean 1969 to 2068, as in POSIX's strptime."""
_TIME = r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d{1,9})?))?(?: ?([AaPp])\.?[Mm]\.?)?(?: [Uu]hr)?"
_CLOCK = re.compile(_TIME, re.ASCII)
_DATE = re.compile(rf"(\d{{1,4}})([./-])(\d{{1,2}})\2(\d{{4}}|\d{{1,2}})(?:(?:, ?|[ T]){_TIME})?", re.ASCII)


def days(word: str) -> float | None:
    """Returns the days since 1970-01-01 of a date with the year first, with or without a time; else None.

    It is ISO 8601, or has points or slashes between the parts. A time without a zone counts as UTC.
    """
    if not word.isascii() or not word[:_LONGEST_YEAR].isdigit():
        return None
    if "-" in word:
        try:
            moment = datetime.fromisoformat(word)
        except ValueError:
            return None
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return aware.timestamp() / _DAY_S
    found = _DATE.fullmatch(word)
    return None if found is None else _day(found, found[1], found[3], found[4])


@cache
def day_reader(order: DateOrder | None, months: Months | None = None) -> Callable[[str], float | None]:
    """Returns the function that reads a date: `days`, and with an `order` also dates with the year last.

    Where points are between the parts, the day comes first in any case. A year may have two digits. With
    `months` a date may have a month's name in that language, in any order.

    >>> day_reader("month-first")("1/2/1970"), day_reader("day-first")("02.01.70 12:00")
    (1.0, 1.5)
    >>> day_reader(None, "german")("2. Jänner 1970"), day_reader(None, "english")("Jan 2, 1970")
    (1.0, 1.0)
    """
    in_numbers = _ordered(order)
    if months is None:
        return in_numbers
    day_first = _ordered("day-first")

    def read(word: str) -> float | None:
        if not any(map(str.isalpha, word)):
            return in_numbers(word)
        date = numbered(word, months)
        return in_numbers(word) if date is None else day_first(date)

    return read


@cache
def _ordered(order: DateOrder | None) -> Callable[[str], float | None]:
    if order is None:
        return days

    def read(word: str) -> float | None:
        found = _DATE.fullmatch(word)
        if found is None or len(found[1]) > 2:
            return days(word)
        first, second = found[1], found[3]
        month_first = order == "month-first" and found[2] != "."
        day, month = (second, first) if month_first else (first, second)
        return _day(found, found[4], month, day)

    return read


def hours(word: str) -> float | None:
    """Returns the hours from midnight of a time such as 14:30, 14:30:15 or 2:30 PM; else None."""
    found = _CLOCK.fullmatch(word)
    return None if found is None else _hours(found[1], found[2], found[3], found[4])


def _day(found: re.Match[str], year: str, month: str, day: str) -> float | None:
    if len(year) not in (2, _LONGEST_YEAR):
        return None
    full = int(year)
    if len(year) < _LONGEST_YEAR:
        full += 1900 if full >= _CENTURY_FROM else 2000
    try:
        midnight = datetime(full, int(month), int(day), tzinfo=UTC)
    except ValueError:
        return None
    clock = 0.0 if found[5] is None else _hours(found[5], found[6], found[7], found[8])
    return None if clock is None else midnight.timestamp() / _DAY_S + clock / 24


def _hours(hour: str, minute: str, second: str | None, half: str | None) -> float | None:
    h, m, s = int(hour), int(minute), float(second or 0)
    if half is not None:
        if not 1 <= h <= 12:
            return None
        h = h % 12 + (12 if half in "pP" else 0)
    return h + m / 60 + s / 3600 if h < 24 and m < 60 and s < 61 else None
