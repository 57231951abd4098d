"""The columns of a model's matrix: products of numbers and of indicators of levels, with public ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from node.jobs.exact_arithmetic import Doubles
from node.jobs.statistics.columns import Category, Column, Number, Table, rows_of


@dataclass(frozen=True)
class Level:
    """The indicator of one level of a category: 1 where a row has it, else 0."""

    of: Category
    place: int

    low, high = 0.0, 1.0

    @property
    def name(self) -> str:
        """As a table of coefficients names it."""
        return f"{self.of.name}: {self.of.levels[self.place]}"

    def values(self, table: Table) -> Doubles:
        """Returns (n,) values of the rows, NaN where one is missing."""
        places = table[self.of.name]
        return np.where(np.isnan(places), np.nan, places == self.place)


Factor = Number | Level


@dataclass(frozen=True)
class DesignColumn:
    """The product of its factors."""

    factors: tuple[Factor, ...]

    @property
    def label(self) -> str:
        """As a table of coefficients names it: the factors' names between crosses."""
        return " \N{MULTIPLICATION SIGN} ".join(factor.name for factor in self.factors)

    @property
    def extent(self) -> tuple[float, float]:
        """The public range of the product."""
        low, high = 1.0, 1.0
        for factor in self.factors:
            corners = [a * b for a in (low, high) for b in (factor.low, factor.high)]
            low, high = min(corners), max(corners)
        return low, high

    def values(self, table: Table) -> Doubles:
        """Returns (n,) values of the rows; NaN where a factor has none."""
        found = np.ones(rows_of(table))
        for factor in self.factors:
            found = found * factor.values(table)
        return found


def design(terms: Sequence[frozenset[str]], columns: Mapping[str, Column]) -> tuple[DesignColumn, ...]:
    """Returns the columns of a model with an intercept and these terms, each the names of its factors.

    A category in a term has an indicator of each level but the first, if the rest of the term is a term of
    the model, too, or nothing; otherwise of each level. It is R's rule (Chambers & Hastie 1992, 2.4.1).
    """
    known = {frozenset[str](), *terms}
    found: list[DesignColumn] = []
    for term in terms:
        choices: list[list[Factor]] = []
        for name in (name for name in columns if name in term):
            column = columns[name]
            if isinstance(column, Number):
                choices.append([column])
            else:
                first = 1 if term - {name} in known else 0
                choices.append([Level(column, place) for place in range(first, len(column.levels))])
        found += [DesignColumn(factors) for factors in product(*choices)]
    return tuple(found)


@dataclass(frozen=True)
class Matrix:
    """A model's columns, each as -1 to 1 of its public range."""

    columns: tuple[DesignColumn, ...]

    @property
    def ranges(self) -> Doubles:
        """The columns' middles and half widths, (2, p); a column that is constant has a half width of 1."""
        extents = np.array([column.extent for column in self.columns]).reshape(-1, 2)
        middle, half = extents.sum(axis=1) / 2, (extents[:, 1] - extents[:, 0]) / 2
        return np.stack([middle, np.where(half > 0, half, 1.0)])

    def scaled(self, table: Table) -> Doubles:
        """Returns the matrix (n, p) of the rows, NaN where a value is missing."""
        middle, half = self.ranges
        values = [column.values(table) for column in self.columns]
        return (np.reshape(values, (len(values), rows_of(table))).T - middle) / half


def complete(*arrays: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Returns (n,): in which rows no array (n, ...) has a missing value."""
    return np.logical_and.reduce([~np.isnan(array.reshape(len(array), -1)).any(axis=1) for array in arrays])
