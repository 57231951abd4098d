"""The job of statistics: parts side by side, each with its own stretch of the base and of every sum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from mechanisms.accounting.ledger import Event
from node.jobs.job import Contributed, Words
from node.jobs.statistics.columns import Table
from node.jobs.statistics.part import Part
from node.storage.vector_files import Floats
from protocol.wire.ids import Key


@dataclass(frozen=True)
class Statistics:
    """A job (node.jobs.job) on the rows of `table`, without noise: as exact as if all rows were together."""

    parts: tuple[Part, ...]
    table: Table

    @property
    def length(self) -> int:
        """See Job."""
        return sum(part.length for part in self.parts)

    def words(self, generation: int) -> int:
        """See Job."""
        return sum(part.words(generation) for part in self.parts)

    def cost(self, generation: int) -> tuple[Event, ...]:
        """See Job: exact sums have no noise to pay for."""
        return ()

    def initial(self) -> Floats:
        """See Job."""
        return np.zeros(self.length, np.float32)

    def states(self, base: Floats) -> list[Floats]:
        """Returns the state of each part."""
        return [base[place] for place in self._places(lambda part: part.length)]

    def contribution(self, base: Floats, generation: int) -> Contributed:
        """See Job."""
        states = zip(self.parts, self.states(base), strict=True)
        return Contributed(
            np.concatenate([part.contribution(state, generation, self.table) for part, state in states])
        )

    def following(self, base: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """See Job."""
        places = self._places(lambda part: part.words(generation))
        each = zip(self.parts, self.states(base), places, strict=True)
        return np.concatenate(
            [part.following(state, generation, summed[place], members) for part, state, place in each]
        )

    def is_over(self, base: Floats) -> bool:
        """See Job."""
        return all(part.is_over(state) for part, state in zip(self.parts, self.states(base), strict=True))

    def _places(self, size: Callable[[Part], int]) -> list[slice]:
        return [slice(start, stop) for start, stop in pairwise(accumulate(map(size, self.parts), initial=0))]
