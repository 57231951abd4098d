"""Which column of a table says whose a row is, for `python -m node.init`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from node.data.files.csv_and_parquet import Frame, fail
from node.data.remedies import without_columns
from node.data.text.columns import Words, words_of
from node.init.asked import NONE
from node.system.errors import ConfigError, shown
from node.task.dialect import Dialect

_WHO = (
    "patient(en|s|in)?|pat|person(en)?|subject|subj|proband(en|in)?|participant|teilnehmer|versicherten?|"
    "client|klient(en)?|customer|kunden?|member|mitglieds?|user|student|pupil|employee"
)
_NUMBER = "id|ids|nr|no|num|number|nummer|code|key|kennung|hash|pseudonym"
_NAMES_PERSONS = re.compile(rf"(?i:[^a-z]*({_WHO})[^a-z]*({_NUMBER})?[^a-z]*|mrn|pid)")
_NAMES_SOMETHING = re.compile(r"(?i:(.*[^a-z])?(id|uuid|guid|nr|key)([^a-z].*)?)|.*[a-z](Id|ID|Nr)")
_FEWEST, _MOST_ROWS_EACH, _REPEATS = 5, 50, 0.95


@dataclass(frozen=True)
class PersonColumn:
    """A column that says whose a row is: of how many persons, with at most how many rows each."""

    name: str
    persons: int
    most: int


def person_column(frame: Frame, asked: str | None, target: str, dialect: Dialect) -> PersonColumn | None:
    """Returns the column that `asked` names, or one whose name and cells say that it names persons.

    `asked` may be NONE. Raises ConfigError for a column that is not there, the target, or without a name.
    """
    if asked == NONE:
        return None
    if asked is None:
        return _repeating(frame, target, dialect, _NAMES_PERSONS)
    if asked not in frame.columns:
        fail(frame.path, without_columns([asked], list(frame.columns)))
    if asked == target:
        raise ConfigError(f"--person {shown(asked)} is refused: it is the target; name another column")
    words = words_of(frame.columns[asked], dialect)
    if not words.words:
        fail(frame.path, f", column {shown(asked)}: no row has a value, so none says whose it is")
    return _described(asked, words)


def unnamed(frame: Frame, target: str, dialect: Dialect) -> str:
    """Returns a warning about a column that may say whose a row is; "" if there is none."""
    found = _repeating(frame, target, dialect, _NAMES_SOMETHING)
    if found is None:
        return ""
    return (
        f"warning: column {shown(found.name)} repeats: {found.persons} values in {frame.rows} rows, one of "
        f"them {found.most} times. If it says whose a row is, give --person {shown(found.name)}; else "
        "epsilon is for one row, and a person with several is not covered by it"
    )


def _repeating(frame: Frame, target: str, dialect: Dialect, names: re.Pattern[str]) -> PersonColumn | None:
    """Returns the column named so that has most values, if these are many, and most of them repeat."""
    columns = {
        name: words_of(cells, dialect) for name, cells in frame.columns.items() if names.fullmatch(name)
    }
    named = [_described(name, words) for name, words in columns.items() if name != target and words.words]
    least, most = max(_FEWEST, frame.rows / _MOST_ROWS_EACH), _REPEATS * frame.rows
    return max(
        (one for one in named if least <= one.persons <= most), key=lambda one: one.persons, default=None
    )


def _described(name: str, words: Words) -> PersonColumn:
    return PersonColumn(name, len(words.words), int(words.counts().max()))
