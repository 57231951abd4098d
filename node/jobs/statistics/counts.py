"""The sums behind a table one: counts, means, squares, quantiles and correlations, by group.

    sum 1       rows; of a number 256 cells of its public range and the sum of u; categories; cross tables
    sums 2 - 4  each cell that holds a wanted quantile in 16 parts
    with 2      (u - mean)^2 by group, and products of each pair of columns about their means

u is the value as -1 to 1 of its range. A quantile's place is then known to 2^-20 of the range. The two rows
nearest to each quartile are sought: statistical software interpolates between them (type 7 of Hyndman & Fan
1996).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from node.jobs.exact_arithmetic import Doubles
from node.jobs.job import Words
from node.jobs.limbs import LIMBS, counts_of, doubles_of, limbs_of, to_numbers, to_state, to_words
from node.jobs.statistics.columns import Category, Column, Number, Table, is_there, rows_of
from node.jobs.statistics.part import Blocks
from node.storage.vector_files import Floats
from protocol.wire.ids import Key

CELLS, PARTS, SUMS = 256, 16, 4
FINEST = CELLS * PARTS ** (SUMS - 1)
QUARTERS = (1, 2, 3)
_SOUGHT = 2 * len(QUARTERS)
_UNIT = 2.0**-40

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Counted:
    """What the sums show. S groups: those of `by`, then rows without one; T: groups, then all rows."""

    rows: Counts  # (S,)
    cells: dict[str, Counts]  # of a number (S, CELLS), of a category (S, levels)
    outside: dict[str, int]
    tables: dict[tuple[str, str], Counts]  # (levels, levels)
    sums: dict[str, Doubles]  # (S,) of u
    squares: dict[str, Doubles]  # (S,) of (u - mean of the group)^2
    pairs: dict[tuple[str, str], Doubles]  # (6,): rows, and sums of a, b, a a, b b, a b about the means
    places: dict[str, Counts]  # (T, 3, 2): the finest cells of the rows below and above each quartile


@dataclass(frozen=True)
class CountsPart:
    """Counts `columns`, by the groups of `by`, and `tables`, each of two categories of `columns`."""

    columns: tuple[Column, ...]
    by: Category | None = None
    tables: tuple[tuple[str, str], ...] = ()

    @cached_property
    def _numbers(self) -> tuple[Number, ...]:
        return tuple(column for column in self.columns if isinstance(column, Number))

    @cached_property
    def _pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple(combinations(range(len(self._numbers)), 2))

    @property
    def _groups(self) -> int:
        return 1 if self.by is None else len(self.by.levels) + 1

    @cached_property
    def _counts(self) -> Blocks:
        """The counts of the first sum."""
        by_name = {column.name: column for column in self.columns}
        shapes: dict[str, tuple[int, ...]] = {"rows": (self._groups,), "outside": (len(self._numbers),)}
        for column in self.columns:
            width = len(column.levels) if isinstance(column, Category) else CELLS
            shapes[f"cells {column.name}"] = (self._groups, width)
        for place, pair in enumerate(self.tables):
            shapes[f"table {place}"] = tuple(len(_category(by_name[name]).levels) for name in pair)
        return Blocks(shapes)

    @property
    def _quantiles(self) -> tuple[int, int, int]:
        return self._groups, len(self._numbers), _SOUGHT

    @cached_property
    def _state(self) -> Blocks:
        sums, sought = self._groups * len(self._numbers), self._groups * len(self._numbers) * _SOUGHT
        return Blocks(
            {
                "stage": (1,),
                "counts": (2 * self._counts.size,),
                "sums": (4 * sums,),
                "squares": (4 * sums,),
                "pairs": (4 * 6 * len(self._pairs),),
                "place": (2 * sought,),
                "rank": (2 * sought,),
            }
        )

    @property
    def length(self) -> int:
        """See Part."""
        return self._state.size

    def words(self, generation: int) -> int:
        """See Part."""
        sums = self._groups * len(self._numbers)
        match generation:
            case 0:
                return self._counts.size + LIMBS * sums
            case 1:
                return sums * _SOUGHT * PARTS + LIMBS * (sums + 6 * len(self._pairs))
            case 2 | 3:
                return sums * _SOUGHT * PARTS
            case _:
                return 0

    def is_over(self, state: Floats) -> bool:
        """See Part."""
        return bool(state[0] >= SUMS)

    def contribution(self, state: Floats, generation: int, table: Table) -> Words:
        """See Part."""
        if generation >= SUMS:
            return np.zeros(0, np.uint32)
        group = self._group(table)
        if generation == 0:
            return np.concatenate([self._count(table, group), to_words(self._sum(table, group), _UNIT)])
        found = self._state.split(state)
        words = [self._refine(table, group, counts_of(found["place"]), generation)]
        if generation == 1:
            words.append(to_words(self._moments(table, group, found), _UNIT))
        return np.concatenate(words)

    def _group(self, table: Table) -> Counts:
        if self.by is None:
            return np.zeros(rows_of(table), np.int64)
        return np.nan_to_num(table[self.by.name], nan=len(self.by.levels)).astype(np.int64)

    def _count(self, table: Table, group: Counts) -> Words:
        found = {"rows": np.bincount(group, minlength=self._groups)}
        values = [table[column.name] for column in self._numbers]
        ends = zip(values, self._numbers, strict=True)
        found["outside"] = np.array([((x < one.low) | (x > one.high)).sum() for x, one in ends], np.int64)
        for column in self.columns:
            there = is_there(column, table)
            if isinstance(column, Category):
                width, cell = len(column.levels), table[column.name][there].astype(np.int64)
            else:
                width, cell = CELLS, _finest(column, table, there) // (FINEST // CELLS)
            found[f"cells {column.name}"] = np.bincount(
                group[there] * width + cell, minlength=self._groups * width
            )
        for place, (first, second) in enumerate(self.tables):
            rows, width = self._counts.shapes[f"table {place}"]
            both = table[first] * width + table[second]
            of_both = both[~np.isnan(both)].astype(np.int64)
            found[f"table {place}"] = np.bincount(of_both, minlength=rows * width)
        return self._counts.join(found).astype(np.uint32)

    def _sum(self, table: Table, group: Counts) -> Doubles:
        """Returns (numbers, S) sums of u."""
        return self._by_group([np.nan_to_num(column.scaled(table)) for column in self._numbers], group)

    def _by_group(self, values: list[Doubles], group: Counts) -> Doubles:
        sums = [np.bincount(group, one, minlength=self._groups) for one in values]
        return np.reshape(sums, (len(values), self._groups)).astype(np.float64)

    def _means(self, found: dict[str, Floats]) -> tuple[Doubles, Doubles]:
        """Returns the means of u by number and group (numbers, S), and of all rows (numbers,)."""
        counts = self._counts.split(counts_of(found["counts"]))
        there = np.reshape(
            [counts[f"cells {column.name}"].sum(axis=1, dtype=np.int64) for column in self._numbers],
            (len(self._numbers), self._groups),
        )
        sums = doubles_of(found["sums"]).reshape(there.shape)
        whole = sums[:, 0]
        for place in range(1, self._groups):
            whole = whole + sums[:, place]
        return sums / np.maximum(there, 1), whole / np.maximum(there.sum(axis=1, dtype=np.int64), 1)

    def _moments(self, table: Table, group: Counts, found: dict[str, Floats]) -> Doubles:
        means, whole = self._means(found)
        u = [column.scaled(table) for column in self._numbers]
        squares = [np.nan_to_num((one - mean[group]) ** 2) for one, mean in zip(u, means, strict=True)]
        pairs = []
        for i, j in self._pairs:
            both = ~np.isnan(u[i]) & ~np.isnan(u[j])
            a, b = u[i][both] - whole[i], u[j][both] - whole[j]
            pairs += [len(a), a.sum(), b.sum(), (a * a).sum(), (b * b).sum(), (a * b).sum()]
        return np.concatenate([self._by_group(squares, group).ravel(), np.array(pairs, np.float64)])

    def _refine(self, table: Table, group: Counts, places: Counts, generation: int) -> Words:
        """Returns (T, numbers, 6, PARTS) counts of the parts of the cells `places`."""
        places = places.reshape(self._quantiles)
        counts = np.zeros((*places.shape, PARTS), np.uint32)
        part = FINEST // (CELLS * PARTS**generation)
        for number, column in enumerate(self._numbers):
            there = is_there(column, table)
            cell, of = _finest(column, table, there) // part, group[there]
            for target in range(self._groups):
                own = cell if target == self._groups - 1 else cell[of == target]
                for sought, place in enumerate(places[target, number]):
                    inside = own[own // PARTS == place] % PARTS
                    counts[target, number, sought] = np.bincount(inside, minlength=PARTS)
        return counts.ravel()

    def following(self, state: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """See Part."""
        if generation >= SUMS:
            return state.copy()
        found = self._state.split(state)
        if generation == 0:
            counts, sums = summed[: self._counts.size], summed[self._counts.size :]
            found["counts"] = to_state(counts)
            found["sums"] = to_state(to_numbers(limbs_of(sums), _UNIT))
            place, rank = self._first_places(counts.astype(np.int64))
        else:
            size = prod(self._quantiles) * PARTS
            parts = summed[:size].astype(np.int64).reshape(*self._quantiles, PARTS)
            if generation == 1:
                moments = to_numbers(limbs_of(summed[size:]), _UNIT)
                squares = self._groups * len(self._numbers)
                found["squares"], found["pairs"] = to_state(moments[:squares]), to_state(moments[squares:])
            place, rank = (counts_of(found[name]).reshape(self._quantiles) for name in ("place", "rank"))
            inside, rank = _cell_of(parts, rank)
            place = place * PARTS + inside
        found["stage"] = np.array([generation + 1], np.float32)
        found["place"], found["rank"] = (to_state(each.astype(np.uint32)) for each in (place, rank))
        return self._state.join(found)

    def _first_places(self, counts: Counts) -> tuple[Counts, Counts]:
        """Returns the cells (T, numbers, 6) of the sought rows, and how many rows are before each there."""
        split = self._counts.split(counts)
        cells = np.zeros((self._groups, len(self._numbers), CELLS), np.int64)
        for number, column in enumerate(self._numbers):
            own = split[f"cells {column.name}"]
            cells[:-1, number], cells[-1, number] = own[:-1], own.sum(axis=0, dtype=np.int64)
        last = np.maximum(cells.sum(axis=-1, dtype=np.int64) - 1, 0)
        below = last[..., None] * np.array(QUARTERS) // 4
        sought = np.stack([below, np.minimum(below + 1, last[..., None])], axis=-1)
        wide = np.broadcast_to(cells[:, :, None, :], (*self._quantiles, CELLS))
        return _cell_of(wide, sought.reshape(self._quantiles))

    def counted(self, state: Floats) -> Counted:
        """Returns what a state over shows."""
        found = self._state.split(state)
        counts = self._counts.split(counts_of(found["counts"]))
        names = [column.name for column in self._numbers]
        by_number = (len(names), self._groups)
        places = counts_of(found["place"]).reshape(self._groups, len(names), len(QUARTERS), 2)
        pairs = doubles_of(found["pairs"]).reshape(-1, 6)
        return Counted(
            rows=counts["rows"],
            cells={column.name: counts[f"cells {column.name}"] for column in self.columns},
            outside=dict(zip(names, counts["outside"].tolist(), strict=True)),
            tables={pair: counts[f"table {place}"] for place, pair in enumerate(self.tables)},
            sums=dict(zip(names, doubles_of(found["sums"]).reshape(by_number), strict=True)),
            squares=dict(zip(names, doubles_of(found["squares"]).reshape(by_number), strict=True)),
            pairs={(names[i], names[j]): pair for (i, j), pair in zip(self._pairs, pairs, strict=True)},
            places={name: places[:, number] for number, name in enumerate(names)},
        )


def value_at(column: Number, place: Counts) -> Doubles:
    """Returns the middles of finest cells, as values of the column."""
    return column.low + (place + 0.5) / FINEST * (column.high - column.low)


def _finest(column: Number, table: Table, there: NDArray[np.bool_]) -> Counts:
    """Returns the finest cells of the rows that have a value."""
    shares = (table[column.name][there] - column.low) / (column.high - column.low)
    return np.clip(np.floor(shares * FINEST), 0, FINEST - 1).astype(np.int64)


def _cell_of(cells: Counts, rank: Counts) -> tuple[Counts, Counts]:
    """Returns (...,) cells of (..., m) that hold the rows `rank` (...,) from 0, and their ranks within."""
    up_to = np.cumsum(cells, axis=-1, dtype=np.int64)
    cell = np.minimum((up_to <= rank[..., None]).sum(axis=-1, dtype=np.int64), cells.shape[-1] - 1)
    before = np.take_along_axis(up_to - cells, cell[..., None], axis=-1)[..., 0]
    return cell, np.maximum(rank - before, 0)


def _category(column: Column) -> Category:
    if not isinstance(column, Category):
        raise TypeError(f"{column.name} is not allowed in a cross table: a category")
    return column
