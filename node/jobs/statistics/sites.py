"""Counts, means and deviations of each member, in slots of its own: what all have agreed to show apart.

    sum 1   nothing: it names the members, whose places in the order of their keys are their slots
    sum 2   a mark at each figure that its member hides: a count of few rows, a mean of few
    sum 3   all figures, but zeros where they are hidden

Between the last two all members hide more, by the marks alone: wherever one is hidden in a line whose total
is printed, a second is. So nobody's figure follows from what the others show, and it leaves no member.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from node.jobs.exact_arithmetic import Doubles
from node.jobs.job import Words
from node.jobs.limbs import LIMBS, MEMBERS, counts_of, limbs_of, to_numbers, to_state, to_words
from node.jobs.statistics.columns import Category, Column, Number, Table, is_there, rows_of
from node.jobs.statistics.part import Blocks
from node.storage.vector_files import Floats
from protocol.wire.ids import Key

_SUMS = 3
_UNIT = 2.0**-40
_KEY_BYTES = 8
"""The bytes of a member's key in the state: they tell members apart."""

Marks = NDArray[np.bool_]


@dataclass(frozen=True)
class Site:
    """What a member shows: None where it is hidden. `key`: the first bytes of its key."""

    key: bytes
    rows: int
    counts: dict[str, tuple[int | None, ...]]
    """Of each category its levels, and last the rows without a value."""
    moments: dict[str, tuple[float, float] | None]
    """Of each number the mean and the standard deviation, n - 1, of u (-1 to 1 of its range)."""


@dataclass(frozen=True)
class SitesPart:
    """`own`: this member's key. `few`: a count below it is hidden; `least_rows`: a mean of fewer is."""

    columns: tuple[Column, ...]
    own: Key
    few: int
    least_rows: int

    @cached_property
    def _categories(self) -> dict[str, slice]:
        """The places of each category's counts, and of its rows without a value, in a slot."""
        places, start = {}, 0
        for column in self.columns:
            if isinstance(column, Category):
                places[column.name] = slice(start, start + len(column.levels) + 1)
                start += len(column.levels) + 1
        return places

    @cached_property
    def _numbers(self) -> tuple[Number, ...]:
        return tuple(column for column in self.columns if isinstance(column, Number))

    @property
    def _counts(self) -> int:
        return sum(place.stop - place.start for place in self._categories.values())

    @property
    def _figures(self) -> int:
        """The figures that a slot may hide: counts, then numbers."""
        return self._counts + len(self._numbers)

    @property
    def _values(self) -> int:
        """The words of a slot: rows, counts, and two numbers for each column of numbers."""
        return 1 + self._counts + 2 * LIMBS * len(self._numbers)

    @cached_property
    def _state(self) -> Blocks:
        return Blocks(
            {
                "stage": (1,),
                "members": (MEMBERS, _KEY_BYTES // 2),
                "marks": (MEMBERS, self._figures),
                "values": (2 * MEMBERS * self._values,),
            }
        )

    @property
    def length(self) -> int:
        """See Part."""
        return self._state.size

    def words(self, generation: int) -> int:
        """See Part."""
        return MEMBERS * {1: self._figures, 2: self._values}.get(generation, 0)

    def is_over(self, state: Floats) -> bool:
        """See Part."""
        return bool(state[0] >= _SUMS)

    def contribution(self, state: Floats, generation: int, table: Table) -> Words:
        """See Part."""
        words = np.zeros(self.words(generation), np.uint32)
        if not len(words):
            return words
        found = self._state.split(state)
        own = np.frombuffer(self.own[:_KEY_BYTES], "<u2")
        (slot,) = np.flatnonzero((found["members"] == own).all(axis=1))
        slots = words.reshape(MEMBERS, -1)
        slots[slot] = self._marks(table) if generation == 1 else self._shown(table, found["marks"][slot] > 0)
        return words

    def alone(self, table: Table) -> Site:
        """Returns what this member may show of its own rows, beside their total alone."""
        (marks,) = completed(self._marks(table)[None, :], tuple(self._categories.values()))
        return self._site(self.own, marks, self._shown(table, marks))

    def _marks(self, table: Table) -> Marks:
        """Returns which figures (figures,) of this member are of few."""
        counts = self._count(table)
        few = [is_there(column, table).sum() < self.least_rows for column in self._numbers]
        return np.concatenate([(counts > 0) & (counts < self.few), few]).astype(bool)

    def _shown(self, table: Table, marks: Marks) -> Words:
        """Returns a slot's words (values,), zeros where they are hidden."""
        counts = np.where(marks[: self._counts], 0, self._count(table))
        moments = np.where(marks[self._counts :, None], 0.0, self._moments(table))
        return np.concatenate([[rows_of(table)], counts, to_words(moments, _UNIT)]).astype(np.uint32)

    def _count(self, table: Table) -> NDArray[np.int64]:
        counts = np.zeros(self._counts, np.int64)
        for name, place in self._categories.items():
            width = place.stop - place.start
            cells = np.nan_to_num(table[name], nan=width - 1).astype(np.int64)
            counts[place] = np.bincount(cells, minlength=width)
        return counts

    def _moments(self, table: Table) -> Doubles:
        """Returns (numbers, 2)."""
        found = np.zeros((len(self._numbers), 2))
        for place, column in enumerate(self._numbers):
            u = column.scaled(table)[is_there(column, table)]
            if len(u) >= self.least_rows:
                found[place] = u.mean(), u.std(ddof=1)
        return found

    def following(self, state: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """See Part."""
        if generation >= _SUMS:
            return state.copy()
        found = self._state.split(state.copy())
        found["stage"][0] = generation + 1
        if generation == 0:
            keys = np.frombuffer(b"".join(key[:_KEY_BYTES] for key in members), "<u2")
            found["members"][: len(members)] = keys.reshape(len(members), -1)
        elif generation == 1:
            marks = summed.reshape(MEMBERS, -1)[: len(members)] > 0
            found["marks"][: len(members)] = completed(marks, tuple(self._categories.values()))
        else:
            found["values"] = to_state(summed)
        return self._state.join(found)

    def sites(self, state: Floats) -> tuple[Site, ...]:
        """Returns what a state over shows, by member."""
        found = self._state.split(state)
        names = found["members"].astype("<u2")
        values = counts_of(found["values"]).astype(np.uint32).reshape(MEMBERS, -1)
        return tuple(
            self._site(key.tobytes(), marks > 0, words)
            for key, marks, words in zip(names, found["marks"], values, strict=True)
            if key.any()
        )

    def _site(self, key: bytes, marks: Marks, words: Words) -> Site:
        counts = [None if hide else int(one) for hide, one in zip(marks, words[1:], strict=False)]
        moments = to_numbers(limbs_of(words[1 + self._counts :]), _UNIT).reshape(-1, 2).tolist()
        return Site(
            key=key,
            rows=int(words[0]),
            counts={name: tuple(counts[place]) for name, place in self._categories.items()},
            moments={
                column.name: None if hide else (one[0], one[1])
                for column, hide, one in zip(self._numbers, marks[self._counts :], moments, strict=True)
            },
        )


def completed(marks: Marks, tables: tuple[slice, ...]) -> Marks:
    """Returns marks (sites, figures) with which no line has just one: of a figure, of a site's `tables`."""
    hide = marks.copy()
    while True:
        lines = [*hide.T, *(site[table] for site in hide for table in tables)]
        alone = next((line for line in lines if line.sum() == 1 < len(line)), None)
        if alone is None:
            return hide
        alone[np.argmin(alone)] = True
