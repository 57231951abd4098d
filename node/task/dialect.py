"""How a table's cells are written: the marks of numbers, the order in dates, the words for no value.

A dialect is part of a task's schema, so that all peers read a cell alike. A peer whose own file is written
otherwise says so to its node alone (`Cells`). What a file says about itself (Unicode, its separator) is found
in each file, and stands here only to be fixed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Literal

from node.system.errors import ConfigError, shown
from node.task.rules import Rule, choice, key, read_section, text, unique_texts

Decimal = Literal["point", "comma"]
Thousands = Literal["point", "comma", "space", "apostrophe"]
DateOrder = Literal["day-first", "month-first"]
Months = Literal["english", "french", "german", "italian", "spanish"]
Below = Literal["half", "value", "missing"]
Separator = Literal["comma", "semicolon", "tab", "bar"]

DECIMALS: Mapping[str, str] = MappingProxyType({"point": ".", "comma": ","})
THOUSANDS: Mapping[str, str] = MappingProxyType(
    {"point": ".", "comma": ",", "space": " \u00a0\u2009\u202f", "apostrophe": "'\u2019"}
)
"""The characters that may stand between groups of three digits, by the mark's name."""
OTHER_MARK: Mapping[Decimal, Decimal] = MappingProxyType({"point": "comma", "comma": "point"})
A_MARK: Mapping[str, str] = MappingProxyType(
    {"point": "a point", "comma": "a comma", "space": "a space", "apostrophe": "an apostrophe"}
)
DATE_ORDERS = ("day-first", "month-first")
MONTHS: tuple[Months, ...] = ("english", "french", "german", "italian", "spanish")
BELOW: tuple[Below, ...] = ("half", "value", "missing")
WORDS: tuple[Literal["missing"], ...] = ("missing",)
SEPARATORS: Mapping[str, str] = MappingProxyType({"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"})
ENCODINGS = (
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1257", "cp437", "cp850", "mac-roman", "koi8-r"),
    *("iso-8859-1", "iso-8859-2", "iso-8859-5", "iso-8859-7", "iso-8859-9", "iso-8859-15"),
    *("shift_jis", "euc-jp", "euc-kr", "gb18030", "big5"),
)
"""Encodings of text that is not Unicode."""
MOST_WORDS, LONGEST_WORD = 100, 60
"""Of the words for no value: how many, and how many characters."""
_LONGEST_SHEET = 31  # characters, the limit of Excel
NO_MARK = "none"
_sheet = text(f"a sheet's name, at most {_LONGEST_SHEET} characters", rf".{{1,{_LONGEST_SHEET}}}")


@dataclass(frozen=True)
class Dialect:
    """How cells are written. The default is that of files that programs write: `-1234.5`, `2026-01-31`.

    `missing` are words for no value beside the usual ones (node.data.text.cells), in any case; a number among
    them means all cells of that value. A word that a column lists as one of its values is a value there.
    """

    decimal: Literal["point", "comma"] = key(choice(*DECIMALS), "point")
    thousands: Literal["point", "comma", "space", "apostrophe"] | None = key(choice(*THOUSANDS), None)
    dates: Literal["day-first", "month-first"] | None = key(choice(*DATE_ORDERS), None)
    """The order in 25.07.2023, 7/25/2023, 25-07-2023; None: only dates with the year first."""
    missing: tuple[str, ...] = key(unique_texts(0, MOST_WORDS, LONGEST_WORD), ())
    encoding: str | None = key(choice(*ENCODINGS), None)
    """That of files that are not Unicode; None: there are none."""
    separator: Literal["comma", "semicolon", "tab", "bar"] | None = key(choice(*SEPARATORS), None)
    """Between cells; None: each file's own."""
    sheet: str | None = key(_sheet, None)
    """The sheet of a workbook; None: the first one."""
    months: Literal["english", "french", "german", "italian", "spanish"] | None = key(choice(*MONTHS), None)
    """The language of the names in 25 Jul 2023, July 25, 2023, 25-JUL-23; None: months are numbers."""
    below: Literal["half", "value", "missing"] | None = key(choice(*BELOW), None)
    """What <0.6 is among numbers: half of it, 0.6, or no value; >200 is 200, or no value. None: refused."""
    words: Literal["missing"] | None = key(choice(*WORDS), None)
    """What a word without a digit is among numbers: no value. None: refused, unless `missing` lists it."""

    def of_column(self, decimal: Decimal | None, dates: DateOrder | None) -> Dialect:
        """Returns the dialect of a column that differs from the others in its decimal mark or its dates."""
        own = self if dates is None else replace(self, dates=dates)
        if decimal is None or decimal == self.decimal:
            return own
        return replace(own, decimal=decimal, thousands="comma" if decimal == "point" else "point")


PLAIN = Dialect()


@dataclass(frozen=True)
class Cells:
    """How a node's own file is written, where that is not as the task's dialect says; None: as there.

    What changes the meaning of a value for all (`below`, `words`) is not among the keys.
    """

    decimal: Literal["point", "comma"] | None = key(choice(*DECIMALS), None)
    thousands: str | None = key(choice(*THOUSANDS, NO_MARK), None)
    dates: Literal["day-first", "month-first"] | None = key(choice(*DATE_ORDERS), None)
    months: Literal["english", "french", "german", "italian", "spanish"] | None = key(choice(*MONTHS), None)
    missing: tuple[str, ...] | None = key(unique_texts(0, MOST_WORDS, LONGEST_WORD), None)
    encoding: str | None = key(choice(*ENCODINGS), None)
    separator: Literal["comma", "semicolon", "tab", "bar"] | None = key(choice(*SEPARATORS), None)
    sheet: str | None = key(_sheet, None)

    @property
    def given(self) -> dict[str, Any]:
        """The keys that say something, with their values."""
        return {name: value for name in _CELLS if (value := getattr(self, name)) is not None}

    def over(self, dialect: Dialect) -> Dialect:
        """Returns the task's dialect with these keys in place of its own."""
        given = self.given
        return replace(dialect, **(given | {"thousands": None} if self.thousands == NO_MARK else given))


_CELLS = tuple(entry.name for entry in fields(Cells))
AS_THE_TASK = Cells()


def cells_rule() -> Rule:
    """The rule for data.cells; its errors name the wrong key."""
    return Rule("a table of keys of a dialect", lambda value: read_section(Cells, "data.cells", value))


def cells_table(written: str, place: str) -> dict[str, object]:
    """Returns `decimal=comma,missing=-,missing=k.A.` as the table of data.cells; raises ConfigError."""
    table: dict[str, object] = {}
    for part in written.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or (name in table and name != "missing"):
            raise ConfigError(
                f"{place} {shown(written)} is refused; allowed: KEY=VALUE,... with keys {', '.join(_CELLS)}, "
                "missing as often as there are words, such as decimal=comma,thousands=point,dates=day-first"
            )
        before = table.get(name, [])
        table[name] = [*before, value] if name == "missing" and isinstance(before, list) else value
    return table


def cells_text(cells: Cells) -> str:
    """Returns the value of --cells that says `cells`, as it is typed."""
    said = (
        f"{name}={word}"
        for name, value in cells.given.items()
        for word in (value if isinstance(value, tuple) else (value,))
    )
    return shlex.quote(",".join(said))


def of_target(dialect: Dialect) -> Dialect:
    """Returns the dialect of a target: half of a limit is nothing to learn to predict, nor is a word."""
    return replace(dialect, below=None, words=None)


def check_dialect(where: str, dialect: Dialect) -> None:
    """Raises ConfigError if one mark has two meanings."""
    if dialect.decimal == dialect.thousands:
        raise ConfigError(
            f"{where}.thousands = {shown(dialect.thousands)} is refused beside decimal = "
            f"{shown(dialect.decimal)}; allowed: another mark"
        )


def described(dialect: Dialect) -> str:
    """Returns how numbers, dates and missing values are written, for a report; empty for the default."""
    parts = (
        f"decimals with a {dialect.decimal}" if dialect.decimal != "point" or dialect.thousands else "",
        f"thousands with {A_MARK[dialect.thousands]}" if dialect.thousands else "",
        f"dates {dialect.dates.replace('-', ' ')}" if dialect.dates else "",
        f"names of months in {dialect.months.capitalize()}" if dialect.months else "",
        f"no value: {', '.join(map(shown, dialect.missing))}" if dialect.missing else "",
        below_text(dialect.below) if dialect.below else "",
        "no value: any word without a digit among numbers" if dialect.words else "",
    )
    return "; ".join(filter(None, parts))


def below_text(below: str) -> str:
    """Returns in words what a limit such as <0.6 is among numbers."""
    return {
        "half": "a limit such as <0.6 is half of it, and one such as >200 is 200",
        "value": "a limit such as <0.6 is 0.6",
        "missing": "a limit such as <0.6 is no value",
    }[below]
