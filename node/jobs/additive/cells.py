"""Cells of equal rows for a column of numbers, from secure sums of counts of its rows alone.

The first sum counts rows in `PIECES` even pieces of the public range. Each later one cuts what is heavier
than half a cell's share, and counts in the pieces; what lies between keeps its rows. So a value that many
rows have is soon alone between two borders, and all ranks are known. The share is that of the rest: of the
rows that no value alone holds, among the cells that are left for them. All of it is made of counts, by
whole numbers and single operations of floats, so that all members get the same edges.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Singles = NDArray[np.float32]

SUMS = 4
"""The sums that cells take: values closer than the range / 10^6 may then share a cell."""
PIECES = 256
"""The counts of a column in one of these sums."""
ROWS_A_COEFFICIENT = 3
"""The rows that a site has for each coefficient: DataSHIELD's nfilter.glm of .33."""


@dataclass(frozen=True)
class Cut:
    """Pieces of the next sum by `borders` (m + 1,): the place of each one's count, or -1 and its `rows`."""

    borders: Singles
    places: Counts
    rows: Counts

    def count(self, values: Singles) -> Counts:
        """Returns this member's counts (PIECES,) of `values` (n,)."""
        found = self.find(values)
        return np.bincount(found[found >= 0], minlength=PIECES)

    def find(self, values: Singles) -> Counts:
        """Returns the places (n,) of the counts to which `values` (n,) add."""
        return self.places[np.searchsorted(self.borders[1:-1], values, side="right")]

    def grid(self, counts: Counts) -> Grid:
        """Returns the grid with the counts of all members."""
        return Grid(self.borders, np.where(self.places < 0, self.rows, counts[self.places]))


@dataclass(frozen=True)
class Grid:
    """Pieces and their `rows` (m,): piece i has the values from `borders` i on to below i + 1."""

    borders: Singles
    rows: Counts

    def cut(self, most: int, pieces: int = PIECES, least_rows: int = 0) -> Cut:
        """Returns so many pieces for the next sum, for at most `most` cells of `least_rows`."""
        heavy = self.rows > max(least_rows, share_of_rest(self.rows, most)[1] / 2)
        times = np.where(heavy, pieces // max(1, int(heavy.sum())), 1)
        inside = np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)
        low, high = (
            np.repeat(ends.astype(np.float64), times) for ends in (self.borders[:-1], self.borders[1:])
        )
        starts = low + (high - low) * (inside / np.repeat(times, times))
        is_new = np.repeat(heavy, times)
        places = np.where(is_new, np.cumsum(is_new) - 1, -1)
        return Cut(
            np.append(starts.astype(np.float32), self.borders[-1]), places, np.repeat(self.rows, times)
        )


def grid_of(low: float, high: float, sums: Iterable[Counts], most: int) -> Grid:
    """Returns the grid of a column with a public range after the counts (PIECES,) of each sum."""
    grid = Grid(np.array([low, high], np.float32), np.ones(1, np.int64))
    for counts in sums:
        grid = grid.cut(most).grid(counts)
    return grid


def share_of_rest(rows: Counts, most: int) -> tuple[NDArray[np.bool_], float]:
    """Returns which of the pieces (m,) hold more than a cell's share, and the share of the others."""
    heavy = np.zeros(len(rows), bool)
    while True:
        share = float(rows[~heavy].sum() / max(1, most - heavy.sum()))
        more = ~heavy & (rows > share)
        if not more.any() or (heavy | more).sum() >= most:
            return heavy, share
        heavy |= more


def edges_of(grid: Grid, most: int, least_rows: int) -> tuple[Singles, Counts]:
    """Returns at most `most` - 1 rising edges, and the rows of each cell: `least_rows` and more if there are.

    An edge lies in the middle between the rows on both sides. A value is alone in its cell where it holds
    more rows than the share of the rest.
    """
    there = grid.rows > 0
    rows, low, high = grid.rows[there], grid.borders[:-1][there], grid.borders[1:][there]
    if not len(rows):
        return np.zeros(0, np.float32), np.zeros(1, np.int64)
    cells = [[place] for place in range(len(rows))] if len(rows) <= most else _even(rows, most, least_rows)
    totals = [int(rows[cell].sum()) for cell in cells]
    while len(cells) > most or (len(cells) > 1 and min(totals) < least_rows):
        small = totals.index(min(totals))
        right = small == 0 or (small + 1 < len(cells) and totals[small + 1] < totals[small - 1])
        to = small if right else small - 1
        cells[to : to + 2] = [cells[to] + cells[to + 1]]
        totals[to : to + 2] = [totals[to] + totals[to + 1]]
    first = np.array([cell[0] for cell in cells[1:]], np.int64)
    middle = (high[first - 1].astype(np.float64) + low[first]) / 2
    return middle.astype(np.float32), np.array(totals, np.int64)


def _even(rows: Counts, most: int, least_rows: int) -> list[list[int]]:
    """Returns the pieces of each cell: a heavy one alone, others until they are nearest to their share."""
    heavy, share = share_of_rest(rows, most)
    cells: list[list[int]] = [[]]
    held = 0
    for place, count in enumerate(rows.tolist()):
        is_full = heavy[place] or (place and heavy[place - 1]) or held + count / 2 > share
        if is_full and held >= least_rows and cells[-1]:
            cells.append([])
            held = 0
        cells[-1].append(place)
        held += count
    return cells
