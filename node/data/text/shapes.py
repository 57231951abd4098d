"""What the words of a column look like: numbers with one mark or another, dates with the year last.

Nothing here reads a value. Counts are of distinct words, found with a few regular expressions over all words
at once, so that long columns of plain numbers stay cheap.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from node.data.text.cells import without_sign
from node.data.text.month_names import NAMES, NamedDate, named_date
from node.task.dialect import DECIMALS, THOUSANDS, Months

_EXPONENT = r"(?:[eE][+-]?\d+)?"
_SPACES = f"{THOUSANDS['space']}{THOUSANDS['apostrophe']}"


def _lines(pattern: str) -> re.Pattern[str]:
    """Returns the pattern for a whole line of many."""
    return re.compile(rf"^[+-]?(?:{pattern})$", re.MULTILINE | re.ASCII)


def _fraction(mark: str, other: str) -> re.Pattern[str]:
    groups = rf"[1-9]\d{{0,2}}(?:[{other}{_SPACES}]\d{{3}})+"
    return _lines(rf"(?:(?:\d+|{groups})[{mark}]\d*|[{mark}]\d+){_EXPONENT}")


_WHOLE = _lines(rf"\d+{_EXPONENT}")
_LONG = _lines(r"\d{4,}")
_FRACTION = {"point": _fraction(".", ","), "comma": _fraction(",", ".")}
_EITHER = {name: _lines(rf"[1-9]\d{{0,2}}[{mark}]\d{{3}}") for name, mark in DECIMALS.items()}
_SPLIT = {
    name: _lines(rf"[1-9]\d{{0,2}}(?:[{marks}]\d{{3}})+(?:(?![{marks}])[.,]\d*)?")
    for name, marks in THOUSANDS.items()
}
_GROUPS = {name: _lines(rf"[1-9]\d{{0,2}}(?:[{marks}]\d{{3}})+") for name, marks in THOUSANDS.items()}
_DATE = re.compile(
    r"^(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})(?:[ ,T].*)?$",
    re.MULTILINE | re.ASCII,
)
_NAMED = re.compile(
    r"^(?:\d{1,4}[^\n\d]{3,24}\d{1,4}|[^\W\d_]{3,10}\.?[ -]\d{1,2}[^\n\d]{1,6}\d{2,4})(?:[^\n\d][^\n]*)?$",
    re.MULTILINE,
)
"""Words among which those are that `named_date` knows: few enough to look at each."""


@dataclass(frozen=True)
class NumberShapes:
    """How many of a column's distinct words are numbers, `count` in some dialect, and of which shape."""

    count: int
    whole: int
    """Digits alone."""
    long: int
    """Of these, four digits or more, which a mark for thousands would split; counted beside `either` only."""
    fractions: Mapping[str, int]
    """By decimal mark: numbers with that mark which cannot be one for thousands."""
    either: Mapping[str, int]
    """By mark: numbers such as 1.234, where it is a decimal mark or one for thousands."""
    split: Mapping[str, int]
    """By mark for thousands: numbers where it cannot be a decimal mark; some of them have `fractions`."""

    @property
    def marked(self) -> int:
        """How many words are numbers with a mark, which codes seldom have."""
        return self.count - self.whole


@dataclass(frozen=True)
class DateShapes:
    """How many of a column's distinct words are dates of which shape."""

    day_first: int
    month_first: int
    either_first: int
    """Dates with the year last: those that have this order only, or could have both."""
    named: int
    months: Mapping[Months, int]
    """Dates with a name of a month: all, and by language those whose name it has."""
    short_years: int
    """Of all dates, those with a year of two digits."""

    @property
    def year_last(self) -> int:
        """How many words are dates with the year last, and the month in digits."""
        return self.day_first + self.month_first + self.either_first


@dataclass(frozen=True)
class Shapes:
    """What a column's distinct `words` look like: how many there are, and which are numbers or dates."""

    words: int
    numbers: NumberShapes
    dates: DateShapes


def shapes_of(words: Sequence[str]) -> Shapes:
    """Returns the shapes of distinct, trimmed words."""
    lines = "\n".join(words)
    if lines.count("\n") != max(0, len(words) - 1):
        lines = "\n".join(word.replace("\n", "\0") for word in words)
    whole = _count(_WHOLE, lines)
    either = {name: _with(mark, _EITHER[name], lines) for name, mark in DECIMALS.items()}
    fractions = {name: _with(mark, _FRACTION[name], lines) - either[name] for name, mark in DECIMALS.items()}
    numbers = whole + sum(either.values()) + sum(fractions.values())
    marks = {name: found for name, found in THOUSANDS.items() if any(mark in lines for mark in found)}
    plain = numbers == len(words) and len(marks) <= 1  # as programs write: no more passes
    split = {} if plain else {name: _count(_SPLIT[name], lines) - either.get(name, 0) for name in marks}
    grouped = 0 if plain else sum(_count(_GROUPS[name], lines) - either.get(name, 0) for name in marks)
    orders = [] if plain else [_order(found) for found in _DATE.finditer(lines)]
    named = [] if plain else _named(lines)
    return Shapes(
        words=len(words),
        numbers=NumberShapes(
            count=numbers + grouped,
            whole=whole,
            long=_count(_LONG, lines) if any(either.values()) else 0,
            fractions=fractions,
            either=either,
            split=dict.fromkeys(THOUSANDS, 0) | split,
        ),
        dates=DateShapes(
            day_first=sum(day and not month for day, month, _ in orders),
            month_first=sum(month and not day for day, month, _ in orders),
            either_first=sum(day and month for day, month, _ in orders),
            named=len(named),
            months={
                language: sum(date.month in names for date in named) for language, names in NAMES.items()
            },
            short_years=sum(short for _, _, short in orders) + sum(len(date.year) == 2 for date in named),
        ),
    )


def either_in(words: Sequence[str], mark: str) -> str:
    """Returns the first word in which the mark may be one for decimals or for thousands; empty for none."""
    return next((word for word in words if _EITHER[mark].fullmatch(word)), "")


def _with(marks: str, pattern: re.Pattern[str], lines: str) -> int:
    """Returns how many lines fit, at once 0 if they have none of the `marks`."""
    return _count(pattern, lines) if any(mark in lines for mark in marks) else 0


def _count(pattern: re.Pattern[str], lines: str) -> int:
    return len(pattern.findall(lines))


def _order(date: re.Match[str]) -> tuple[bool, bool, bool]:
    """Returns whether the day, and whether the month may come first, and whether the year has two digits."""
    first, second = int(date[1]), int(date[3])
    pointed = date[2] == "."
    day = 1 <= first <= 31 and 1 <= second <= 12
    month = not pointed and 1 <= first <= 12 and 1 <= second <= 31
    return day, month, (day or month) and len(date[4]) == 2


def _named(lines: str) -> list[NamedDate]:
    """Returns the dates with a month's name in some language."""
    read = (named_date(found[0]) for found in _NAMED.finditer(lines))
    return [date for date in read if date is not None and any(date.month in each for each in NAMES.values())]


OTHER_MARKS = "have other marks for decimals or thousands"
_LIMIT = re.compile(r"[<>\u2264\u2265~\u2248]=?\s*[+-]?[.,]?\d.*")
_UNIT = re.compile(
    r"[+-]?(?:\d[\d.,'\u2019\u00a0\u202f ]*|[.,]\d+)\s*"
    r"(?:[%\u2030\u20ac$\u00a3\u00b0*]|[^\W\d_]{1,4}(?:/\S{1,8})?)"
)
_BEFORE_UNIT = re.compile(r"[+-]?[\d.,'\u2019\u00a0\u202f ]*")
_MARKED = re.compile(r"[+-]?\d[\d.,'\u2019\u00a0\u202f ]*")


def unit_after(word: str) -> str:
    """Returns the unit after a number, "" if there is none; a sign before it does not matter."""
    _, bare = without_sign(word)
    return bare[len(_BEFORE_UNIT.match(bare)[0]) :] if _UNIT.fullmatch(bare) else ""  # type: ignore[index]


def odd_number(word: str) -> str | None:
    """Returns why a word with a number in it is none as it stands; None if it does not look like one.

    The reason completes "cells such as '<0.3' ...".
    """
    if _LIMIT.fullmatch(word):
        return "have a sign such as < before the number"
    if _MARKED.fullmatch(word):
        return OTHER_MARKS
    if _UNIT.fullmatch(word):
        return "have a unit or a sign after the number"
    return None
