"""Finds columns that a file has swapped: each holds what the task expects in the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from node.task.data_schema import CategoryColumn, Column, NumberColumn

Seen = float | Mapping[str, int] | None
"""What a column holds: the mean of its numbers, or the rows of each word; None: nothing to tell by."""

_AWAY, _AT_HOME = 2.0, 1.0  # standard deviations of a mean from the task's, where it does not and does belong


def swapped(columns: Sequence[Column], seen: Sequence[Seen]) -> Mapping[str, str]:
    """Returns for each column of a pair that looks swapped the name of the other."""
    strange = [(column, held) for column, held in zip(columns, seen, strict=True) if _misfit(column, held)]
    others: dict[str, str] = {}
    for (one, held), (other, other_held) in combinations(strange, 2):
        if _fits(one, other_held) and _fits(other, held):
            others |= {one.name: other.name, other.name: one.name}
    return others


def _misfit(column: Column, held: Seen) -> bool:
    match column, held:
        case NumberColumn(), float():
            return abs(held - column.mean) > _AWAY * column.std
        case CategoryColumn(), Mapping():
            return 2 * _listed(column, held) < sum(held.values())
    return False


def _fits(column: Column, held: Seen) -> bool:
    match column, held:
        case NumberColumn(), float():
            return abs(held - column.mean) < _AT_HOME * column.std
        case CategoryColumn(), Mapping():
            return 2 * _listed(column, held) > sum(held.values())
    return False


def _listed(column: CategoryColumn, held: Mapping[str, int]) -> int:
    return sum(rows for word, rows in held.items() if column.place(word) < len(column.values))
