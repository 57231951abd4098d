"""What the options of `python -m node.init` say about how a table's cells are written."""

from __future__ import annotations

from dataclasses import dataclass

from node.cli.options import option, repeated
from node.system.errors import ConfigError, shown
from node.task.dialect import (
    BELOW,
    DATE_ORDERS,
    DECIMALS,
    ENCODINGS,
    LONGEST_WORD,
    MONTHS,
    SEPARATORS,
    THOUSANDS,
    WORDS,
    DateOrder,
    Decimal,
    Dialect,
    Months,
    Separator,
)
from node.task.statistics import FAMILIES, Family

NONE = "none"
USUAL_ENCODING = "cp1252"
"""That of files that are not Unicode, unless an option names another: Windows' in Western Europe."""


def _word(written: str, place: str) -> str:
    if not 0 < len(written.strip()) <= LONGEST_WORD:
        raise ConfigError(
            f"{place} {shown(written)} is refused; allowed: a word of at most {LONGEST_WORD} characters"
        )
    return written.strip()


def _encoding(written: str, place: str) -> str:
    if written.lower() not in ENCODINGS:
        raise ConfigError(
            f"{place} {shown(written)} is refused; allowed: {', '.join(ENCODINGS)}; Unicode is recognised"
        )
    return written.lower()


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the options say; None, or no word: to be found out. `thousands`, `below`, `words` may be NONE."""

    decimal: Decimal | None = option(
        "the decimal mark", begins="how cells are written (found out from the file)", choices=tuple(DECIMALS)
    )
    thousands: str | None = option("the mark between groups of three digits", choices=(*THOUSANDS, NONE))
    dates: DateOrder | None = option("which comes first in 3/4/2023", choices=DATE_ORDERS)
    months: Months | None = option("the language of the months' names in 25 Jul 2023", choices=MONTHS)
    missing: tuple[str, ...] = repeated(
        "a word or number for no value, such as k.A. or 9999 (negative: --missing=-9); repeatable",
        _word,
        metavar="WORD",
    )
    below: str | None = option(
        "what <0.6 is among numbers: half of it, 0.6, or no value", choices=(*BELOW, NONE)
    )
    words: str | None = option("what a word without a digit is among numbers", choices=(*WORDS, NONE))
    encoding: str | None = option(
        f"of text that is not Unicode. Default: {USUAL_ENCODING}", _encoding, metavar="NAME"
    )
    separator: Separator | None = option("between cells", choices=tuple(SEPARATORS))
    sheet: str | None = option("of a workbook. Default: the first one", metavar="NAME")

    @property
    def first(self) -> Dialect:
        """The dialect by which a file is read before its own is known: all cells as text."""
        return Dialect(encoding=self.encoding or USUAL_ENCODING, separator=self.separator, sheet=self.sheet)


NOTHING_ASKED = Asked()


@dataclass(frozen=True, kw_only=True)
class AskedStatistics:
    """What a task for statistics alone asks of the columns; what is not said is proposed as a comment."""

    by: str | None = option(
        f"the column whose groups table one and curves have, or {NONE}. Default: a column of few values",
        begins="what --statistics writes (proposed, as comments to take away, where it is not said)",
        metavar="NAME",
    )
    formula: tuple[str, ...] = repeated(
        "a regression, such as 'died ~ age + sex'; repeatable", metavar="FORMULA"
    )
    family: Family | None = option(
        "of these regressions. Default: binomial for a response of two values, else gaussian",
        choices=FAMILIES,
    )
    time: str | None = option("the column of times, for survival curves; with --event", metavar="NAME")
    event: str | None = option("the column that says whether the event happened then", metavar="NAME")

    @property
    def first(self) -> str:
        """Returns the first option that is given, with its value; "" for none."""
        given = (
            *(("by", self.by), ("formula", next(iter(self.formula), None)), ("family", self.family)),
            *(("time", self.time), ("event", self.event)),
        )
        return next((f"--{name} {shown(value)}" for name, value in given if value is not None), "")

    def check(self) -> None:
        """Raises ConfigError for a time without an event, or the reverse, and for a family of nothing."""
        if (self.time is None) != (self.event is None):
            lacks, has = ("--event", "--time") if self.event is None else ("--time", "--event")
            raise ConfigError(
                f"{has} is given without {lacks}; allowed: both, for survival curves, or neither"
            )
        if self.family is not None and not self.formula:
            raise ConfigError(
                f"--family {self.family} has no effect without --formula; give one, or leave it out"
            )
