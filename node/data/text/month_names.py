"""Dates with a month's name: 25 Jul 2023, 25. Juli 2023, July 25, 2023, 25-JUL-23, 1er août 2023.

The names are those of calendars and their usual abbreviations. They are compared in lower case and without
accents, so that `Août`, `aout` and `AOÛT` are one name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from node.task.dialect import Months

_WRITTEN: Mapping[Months, str] = MappingProxyType(
    {
        "english": (
            "january jan|february feb|march mar|april apr|may|june jun|july jul|august aug|"
            "september sept sep|october oct|november nov|december dec"
        ),
        "french": (
            "janvier janv jan|fevrier fevr fev|mars mar|avril avr|mai|juin|juillet juil|aout aou|"
            "septembre sept sep|octobre oct|novembre nov|decembre dec"
        ),
        "german": (
            "januar janner jan|februar feber feb|marz maerz mrz mar|april apr|mai|juni jun|juli jul|"
            "august aug|september sept sep|oktober okt|november nov|dezember dez"
        ),
        "italian": (
            "gennaio genn gen|febbraio febbr feb|marzo mar|aprile apr|maggio magg mag|giugno giu|"
            "luglio lugl lug|agosto ago|settembre sett set|ottobre ott|novembre nov|dicembre dic"
        ),
        "spanish": (
            "enero ene|febrero feb|marzo mar|abril abr|mayo may|junio jun|julio jul|agosto ago|"
            "septiembre setiembre sept sep set|octubre oct|noviembre nov|diciembre dic"
        ),
    }
)
"""January to December in each language, without accents."""
NAMES: Mapping[Months, Mapping[str, int]] = MappingProxyType(
    {
        language: {name: place for place, each in enumerate(months.split("|"), 1) for name in each.split()}
        for language, months in _WRITTEN.items()
    }
)
"""The number of a month, 1 to 12, by its name, in each language."""
_LONGEST = 60  # characters: no date with a time is longer
_NAME, _YEAR, _TIME = "(?P<month>[a-z]{3,10})", r"(?P<year>\d{4}|\d{2})", "(?:(?:, ?|[ t:])(?P<time>\\d.*))?"
_DAY = r"(?P<day>\d{1,2})(?:\.|st|nd|rd|th|er|o)?"
_FORMS = tuple(
    re.compile(form + _TIME, re.ASCII)
    for form in (
        rf"{_DAY}(?: (?:de|of)(?= ))?[ ./-]{{0,2}}{_NAME}\.?,?(?: del?)?[ ./-]{{0,2}}'?{_YEAR}",
        rf"{_NAME}\.?[ -](?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:, ?|[ -]){_YEAR}",
        rf"(?P<year>\d{{4}})[ ./-]{{0,2}}{_NAME}\.?[ ./-]{{0,2}}(?P<day>\d{{1,2}})",
    )
)


@dataclass(frozen=True)
class NamedDate:
    """The parts of a date as they are written, in lower case and without accents; `time`: empty for none."""

    day: str
    month: str
    year: str
    time: str


def named_date(word: str) -> NamedDate | None:
    """Returns the parts of a word with the form of a date with a name in it, of any language; else None."""
    if len(word) > _LONGEST or not any(map(str.isdigit, word)):
        return None
    parts = unicodedata.normalize("NFKD", word.casefold())
    bare = "".join(part for part in parts if not unicodedata.combining(part))
    for form in _FORMS:
        found = form.fullmatch(bare)
        if found is not None:
            return NamedDate(found["day"], found["month"], found["year"], found["time"] or "")
    return None


def numbered(word: str, language: Months) -> str | None:
    """Returns the date with its month as a number, the day first; None if it has no name of `language`.

    >>> numbered("1er août 2023, 10:30", "french"), numbered("July 25, 2023", "english")
    ('1.8.2023 10:30', '25.7.2023')
    """
    found = named_date(word)
    number = None if found is None else NAMES[language].get(found.month)
    if found is None or number is None:
        return None
    return f"{found.day}.{number}.{found.year} {found.time}".rstrip()
