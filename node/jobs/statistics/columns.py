"""The columns of a table that statistics count: what is public about them, and the rows of one member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from node.jobs.exact_arithmetic import Doubles
from node.task.scaling import Range


@dataclass(frozen=True)
class Number:
    """A column of numbers with its public range; a value outside it counts as the end."""

    name: str
    low: float
    high: float

    @property
    def extent(self) -> Range:
        """The public range."""
        return Range(self.low, self.high)

    def values(self, table: Table) -> Doubles:
        """Returns the rows' (n,) values, cut to the range; NaN: missing."""
        return np.clip(table[self.name], self.low, self.high)

    def scaled(self, table: Table) -> Doubles:
        """Returns the same as -1 to 1, never beyond: a private release counts on it."""
        return self.extent.scaled(table[self.name])


@dataclass(frozen=True)
class Category:
    """A column of categories with its public levels; a boolean has the two levels no and yes."""

    name: str
    levels: tuple[str, ...]


Column = Number | Category

Table = Mapping[str, Doubles]
"""A member's rows by column, each (n,): numbers, or places of levels; NaN where a value is missing."""


def rows_of(table: Table) -> int:
    """Returns how many rows a table has."""
    return len(next(iter(table.values())))


def is_there(column: Column, table: Table) -> NDArray[np.bool_]:
    """Returns (n,): whether the column has a value in each row."""
    return ~np.isnan(table[column.name])
