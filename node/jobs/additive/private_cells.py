"""Cells of columns of numbers from two histograms with noise that the members share.

The first has `EVEN` pieces of the public range, the lowest of them cut by `HALVINGS` halvings towards the low
end, where skewed columns have most of their rows. The second cuts again what is heavier than half a cell's
share and than three standard deviations of the noise. Every cell has more than that, too.

Theorem. In a table of m columns of numbers, adding or removing a row changes each histogram by at most
sqrt(m) in L2. Proof. The pieces of a column do not overlap, so a row adds 1 to one count of each column at
most: to none where it has no value, and in the second histogram where its piece is not cut again. The pieces
of the first are public, those of the second are computed from the released sum of the first alone; so they
are the same for both neighbours, given that sum. Persons add the mean of their rows' vectors, whose norm is
not larger. QED. Two Gaussian releases with the multiplier z, the second adaptive, cost as much as one with
z / sqrt(2) (Dong, Roth & Su 2022, Corollary 3.3). `mechanisms.noised_counts` shares the noise and rounds it,
and `mechanisms.updates.distributed` sizes it.

Unit of privacy: one record, or one person; neighbours: add or remove it; norm: L2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Event
from mechanisms.gradients.shared_noise import in_ring
from mechanisms.noise.randomness import SystemWords
from mechanisms.noise.randomness import Words as RandomWords
from mechanisms.noised_counts import CountGrid, CountNoise
from node.jobs import limbs
from node.jobs.additive.cells import Counts, Cut, Singles, edges_of
from node.jobs.job import Contributed, Words
from node.storage.vector_files import Floats
from protocol.wire.ids import Key

EVEN, HALVINGS, AGAIN = 64, 11, 64
_SURE = 3.0  # standard deviations of the noise
_FIRST = EVEN + HALVINGS


@dataclass(frozen=True)
class NumberValues:
    """A member's rows: `values` (n, m) of each column of numbers, NaN if missing; `persons` (n,) from 0."""

    values: Singles
    persons: NDArray[np.int64] | None = None


class PrivateCells:
    """The job of a member. `ranges`: the public ranges (low, high) of the columns of numbers."""

    def __init__(
        self,
        ranges: Sequence[tuple[float, float]],
        rows: NumberValues,
        noise: CountNoise,
        members: int,
        most: int,
        words: RandomWords | None = None,
    ) -> None:
        """`members`: of the largest sum; `most`: cells for the values of a column; `words`: secret.

        Raises ValueError if the noise drowns all counts.
        """
        self._ranges, self._rows, self._words = ranges, rows, words or SystemWords()
        self._most = most
        self.grid = CountGrid(noise, math.sqrt(len(ranges)), members)
        self._sizes = [len(ranges) * _FIRST, len(ranges) * AGAIN]

    @property
    def length(self) -> int:
        """d: of each sum how many members it has, and its counts."""
        return sum(1 + 2 * size for size in self._sizes)

    def words(self, generation: int) -> int:
        """Returns the words of a histogram."""
        return self._sizes[generation]

    def cost(self, generation: int) -> tuple[Event, ...]:
        """Returns the cost of an offer of a histogram."""
        return (self.grid.noise.event,)

    def initial(self) -> Floats:
        """Returns base 0."""
        return np.zeros(self.length, np.float32)

    def is_over(self, base: Floats) -> bool:
        """Returns whether both histograms are there."""
        return bool(base[1 + 2 * self._sizes[0]] > 0)

    def contribution(self, base: Floats, generation: int) -> Contributed:
        """Returns this member's words of a histogram, with its share of the noise."""
        units = self.grid.add_noise(self.counted(base, generation), self._words)
        return Contributed(in_ring(units))

    def counted(self, base: Floats, generation: int) -> NDArray[np.float64]:
        """Returns this member's histogram (words(generation),), in rows, without noise."""
        size = self.words(generation)
        width = size // len(self._ranges)
        places, amounts = (np.zeros(self._rows.values.shape, np.int64) for _ in range(2))
        for column, cut in enumerate(self._cuts(base, generation)):
            values = self._rows.values[:, column]
            found = cut.find(values)
            amounts[:, column] = (found >= 0) & ~np.isnan(values)
            places[:, column] = np.maximum(found, 0) + column * width
        if self._rows.persons is None:
            return np.bincount(places[amounts > 0], minlength=size).astype(np.float64)
        return self.grid.count_persons(places, amounts.astype(np.float64), self._rows.persons, size)

    def following(self, base: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """Returns the base with a histogram of `members`."""
        found = base.copy()
        start = generation * (1 + 2 * self._sizes[0])
        found[start] = len(members)
        found[start + 1 : start + 1 + 2 * len(summed)] = limbs.to_state(summed)
        return found

    def edges(self, base: Floats) -> tuple[tuple[float, ...], ...]:
        """Returns the rising edges of each column's cells, from both histograms.

        Borders of a range that is narrow for its distance from 0 may be the same float32.
        """
        counts, least = self._histogram(base, 1)
        grids = [cut.grid(rows) for cut, rows in zip(self._cuts(base, 1), counts, strict=True)]
        return tuple(tuple(np.unique(edges_of(grid, self._most, least)[0]).tolist()) for grid in grids)

    def _cuts(self, base: Floats, generation: int) -> list[Cut]:
        first = [_first_cut(low, high) for low, high in self._ranges]
        if generation == 0:
            return first
        counts, least = self._histogram(base, 0)
        return [cut.grid(rows).cut(self._most, AGAIN, least) for cut, rows in zip(first, counts, strict=True)]

    def _histogram(self, base: Floats, number: int) -> tuple[Counts, int]:
        """Returns the rows (m, pieces) of a histogram, and how many are more than its noise."""
        start = number * (1 + 2 * self._sizes[0])
        words = limbs.counts_of(base[start + 1 : start + 1 + 2 * self._sizes[number]]).astype(np.uint32)
        rows = np.rint(words.view(np.int32) * self.grid.unit).astype(np.int64)
        return np.maximum(rows, 0).reshape(len(self._ranges), -1), self.least_rows(int(base[start]))

    def least_rows(self, members: int) -> int:
        """Returns how many rows a cell has at least; a piece that is cut again has more."""
        return math.ceil(_SURE * self.grid.sum_std(members))


def _first_cut(low: float, high: float) -> Cut:
    width = (high - low) / EVEN
    halved = low + width * 0.5 ** np.arange(HALVINGS, 0, -1)
    borders = np.concatenate([[low], halved, low + width * np.arange(1, EVEN), [high]]).astype(np.float32)
    return Cut(borders, np.arange(_FIRST), np.zeros(_FIRST, np.int64))
