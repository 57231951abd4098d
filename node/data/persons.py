"""Whose rows they are, where a person is the unit of privacy: `data.person` names the column that says it.

A person's name is the cell's text without surrounding white space, otherwise exactly as it is; a word for no
value is no name. So `7` and `07` are two persons: names that are nearly equal are told.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from node.data.sides import Draws, RowDraws
from node.system.errors import ConfigError, shown

Numbers = NDArray[np.int64]

_MOST_TOLD = 5
_NO_NAME = -1
_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")


@dataclass(frozen=True, eq=False)
class Persons:
    """The persons of rows, `numbers` (n,): of their `names`, or from len(names) on of a row without one."""

    column: str
    names: tuple[str, ...]
    numbers: Numbers

    def of(self, rows: Numbers) -> Persons:
        """Returns the persons of some of the rows."""
        return Persons(self.column, self.names, self.numbers[rows])

    def draws(self, drawing: RowDraws, rows: Draws) -> Draws:
        """Returns the draw of each row's person; a row without a name has its own, of `rows` (n,)."""
        by_name = drawing.of_persons(self.names)
        named = self.numbers < len(self.names)
        found = rows.copy()
        found[named] = by_name[self.numbers[named]]
        return found


def persons_of(
    path: Path, column: str, words: Sequence[str], codes: Numbers, *, blank_is_own: bool
) -> Persons:
    """Returns the persons of all rows of a file, from the words of a column and each row's word, -1 for none.

    Raises ConfigError for rows without a name, unless each of them is a person of its own.
    """
    blank = np.flatnonzero(codes == _NO_NAME)
    if len(blank) and not blank_is_own:
        rows = ", ".join(str(row + 1) for row in blank[:_MOST_TOLD])
        more = f" and {len(blank) - _MOST_TOLD} more" if len(blank) > _MOST_TOLD else ""
        raise ConfigError(
            f"data {shown(str(path))}, column {shown(column)}: no person in row {rows}{more}; write whose "
            "they are, or --blank-person own makes each such row a person of its own"
        )
    numbers = codes.copy()
    numbers[blank] = len(words) + np.arange(len(blank))
    return Persons(column, tuple(words), numbers)


def equal_rows(draws: Draws, private: bool) -> str:
    """Returns what to say of rows that are equal in all columns of a file without a column of persons.

    `draws` (n,) are codes of 64 bits of all cells of a row. `private`: whether epsilon is for one row.
    """
    _, counts = np.unique(draws, return_counts=True)
    equal = int(counts[counts > 1].sum())
    if not equal:
        return ""
    what = "epsilon is for one row and does not cover that person" if private else "that person counts more"
    return (
        f"{equal:,} of {len(draws):,} rows are equal to another in all columns: if they are one person's, "
        f"{what}; name a column of persons (node.init --person NAME), or keep one of each"
    )


def refuse_persons(drawing: RowDraws, what: str) -> None:
    """Raises ConfigError if persons are asked for of rows that say nothing about them."""
    if drawing.person is not None:
        raise ConfigError(
            f"data.person = {shown(drawing.person)} is refused for {what}; allowed: tables and npz files, "
            "whose rows say whose they are"
        )


def chosen_rows(persons: Numbers, draws: Draws, most: int) -> NDArray[np.bool_]:
    """Returns which rows (n,) are used: of each person the `most` with the lowest draws, equal ones by place.

    What is used of a person follows from the person's own rows alone.
    """
    order = np.lexsort((draws, persons))  # a stable sort: equal rows stay in their order
    ordered = persons[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else ordered
    place = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.r_[starts, len(ordered)]))
    used = np.empty(len(persons), np.bool_)
    used[order] = place < most
    return used


def renumbered(persons: Numbers) -> Numbers:
    """Returns the same persons (n,) as numbers 0, 1, 2, ..."""
    return np.unique(persons, return_inverse=True)[1].astype(np.int64)


def nearly_equal(names: Sequence[str]) -> list[tuple[str, str]]:
    """Returns pairs of names that differ in case, marks, spaces or leading zeros alone."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[_bare(name)].append(name)
    return [(group[0], other) for group in groups.values() for other in group[1:]]


def _bare(name: str) -> str:
    folded = unicodedata.normalize("NFKC", name).casefold()
    return _ZEROS.sub("", "".join(filter(str.isalnum, folded))) or folded
