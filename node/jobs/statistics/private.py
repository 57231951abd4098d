"""Table one under differential privacy: one noised sum of counts and moments, after which the job is over.

Blocks of the release (mechanisms.joint_release): of each column the cells, with one for missing values,
crossed with the groups; of each number also the sums of u and u^2 by group. Crossing costs nothing, as a row
is still in one cell. Numbers have fewer cells than without noise: each cell has its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Event
from mechanisms.gradients.shared_noise import in_ring
from mechanisms.joint_release import Block, JointRelease, cells, moments
from mechanisms.noise import randomness
from mechanisms.noised_counts import CountNoise
from node.jobs.exact_arithmetic import Doubles
from node.jobs.job import Contributed, Words
from node.jobs.limbs import counts_of, to_state
from node.jobs.statistics.columns import Category, Column, Number, Table, is_there, rows_of
from node.storage.vector_files import Floats
from protocol.wire.ids import Key

CELLS = 32


@dataclass(frozen=True)
class Noised:
    """What the sum shows. S groups: those of `by`, then rows without one."""

    cells: dict[str, Doubles]  # (S, cells + 1), the last for missing values
    moments: dict[str, Doubles]  # (S, 2): sums of u and u^2


@dataclass(frozen=True)
class PrivateCounts:
    """Counts `columns` by the groups of `by`, in one release."""

    columns: tuple[Column, ...]
    by: Category | None
    release: JointRelease

    @classmethod
    def of(
        cls, columns: tuple[Column, ...], by: Category | None, noise: CountNoise, records: int, members: int
    ) -> PrivateCounts:
        """Returns it for at most `records` rows of at most `members` members.

        All blocks have the same weight, so that each column's figures are about as good. Raises ValueError if
        32 bits have no room for so many rows beside the noise.
        """
        groups = _groups(by)
        blocks: list[Block] = []
        for column in columns:
            blocks.append(cells(_cells(column), groups * _width(column), 1.0))
            if isinstance(column, Number):
                blocks.append(moments(_moments(column), groups, 1.0))
        return cls(columns, by, JointRelease(tuple(blocks), noise, records, members))

    @property
    def groups(self) -> int:
        """S: how many groups there are."""
        return _groups(self.by)

    def row_units(self, table: Table) -> Doubles:
        """Returns the sum of a member's rows in whole units, without noise."""
        group = np.zeros(rows_of(table), np.int64)
        if self.by is not None:
            group = np.nan_to_num(table[self.by.name], nan=len(self.by.levels)).astype(np.int64)
        rows: dict[str, tuple[NDArray[np.int64], Doubles]] = {}
        for column in self.columns:
            there, width = is_there(column, table), _width(column)
            cell = table[column.name]
            if isinstance(column, Number):
                u = np.nan_to_num(column.scaled(table))
                cell = np.minimum((u + 1) / 2 * CELLS, CELLS - 1)
                places = np.where(there[:, None], 2 * group[:, None] + [0, 1], -1)
                rows[_moments(column)] = places, np.stack([u, u * u], axis=1)
            place = group * width + np.where(there, cell, width - 1).astype(np.int64)
            rows[_cells(column)] = place[:, None], np.ones((len(place), 1))
        return self.release.row_units(rows)

    def noised(self, words: Words) -> Noised:
        """Returns what the words of a sum show."""
        found = self.release.decode(words)
        return Noised(
            {one.name: found[_cells(one)].reshape(self.groups, -1) for one in self.columns},
            {
                one.name: found[_moments(one)].reshape(self.groups, 2)
                for one in self.columns
                if isinstance(one, Number)
            },
        )

    def cell_std(self, column: Column, members: int) -> float:
        """The std in rows of the noise in a cell of a sum of `members`."""
        return self.release.sum_std(_cells(column), members)

    def moment_std(self, column: Number, members: int) -> float:
        """The std of the noise in a sum of u, or of u^2."""
        return self.release.sum_std(_moments(column), members)


@dataclass(frozen=True)
class PrivateStatistics:
    """A job (node.jobs.job) of one sum; `words` are the member's secret source of noise."""

    counts: PrivateCounts
    table: Table
    source: randomness.Words

    @property
    def length(self) -> int:
        """See Job."""
        return 1 + 2 * self.counts.release.size

    def words(self, generation: int) -> int:
        """See Job."""
        return 0 if generation else self.counts.release.size

    def cost(self, generation: int) -> tuple[Event, ...]:
        """See Job: an offer costs one release, whether its sum succeeds or not."""
        return () if generation else (self.counts.release.event,)

    def initial(self) -> Floats:
        """See Job."""
        return np.zeros(self.length, np.float32)

    def contribution(self, base: Floats, generation: int) -> Contributed:
        """See Job."""
        if generation:
            return Contributed(np.zeros(0, np.uint32))
        units = self.counts.row_units(self.table)
        return Contributed(in_ring(self.counts.release.add_noise(units, self.source)))

    def following(self, base: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """See Job: the sum itself."""
        if generation:
            return base.copy()
        return np.concatenate([np.full(1, len(members), np.float32), to_state(summed)])

    def is_over(self, base: Floats) -> bool:
        """See Job."""
        return bool(base[0])


def opened(base: Floats) -> tuple[int, Words]:
    """Returns how many members a base that is over has the sum of, and the sum's words."""
    return int(base[0]), counts_of(base[1:]).astype(np.uint32)


def _groups(by: Category | None) -> int:
    return 1 if by is None else len(by.levels) + 1


def _width(column: Column) -> int:
    return (len(column.levels) if isinstance(column, Category) else CELLS) + 1


def _cells(column: Column) -> str:
    return f"cells {column.name}"


def _moments(column: Number) -> str:
    return f"moments {column.name}"
