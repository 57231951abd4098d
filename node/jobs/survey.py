"""The job of an agreement: one sum of counts, sums and squares over all members' rows.

With privacy each member adds noise of its own, which alone protects its rows. Each attempt draws new noise,
and its charge is on disk before anything that depends on it leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Event
from mechanisms.noise.randomness import Words as Random
from mechanisms.record_sums import RecordSums
from node.jobs.exact_arithmetic import Doubles
from node.jobs.job import Contributed, Words
from node.jobs.limbs import LIMBS, doubles_of, limbs_of, to_numbers, to_state, to_words
from node.storage.vector_files import Floats
from protocol.wire.ids import Key

_DOUBLE = 4
"""The float32 words of a float64 in a base."""


@dataclass(frozen=True)
class Survey:
    """A node's sums (n,), in whole `unit`s, and the noise that it adds; None: none. `random`: secret."""

    sums: NDArray[np.int64]
    unit: float
    noise: RecordSums | None
    random: Random

    @property
    def length(self) -> int:
        """The length of n float64."""
        return _DOUBLE * len(self.sums)

    def words(self, generation: int) -> int:
        """Returns the words of n numbers."""
        return LIMBS * len(self.sums)

    def cost(self, generation: int) -> tuple[Event, ...]:
        """Returns one release."""
        return () if self.noise is None else self.noise.per_training

    def initial(self) -> Floats:
        """Returns zeros: no total is known."""
        return np.zeros(self.length, np.float32)

    def contribution(self, base: Floats, generation: int) -> Contributed:
        """Returns the words of the sums, with new noise."""
        if self.noise is None:
            return Contributed(to_words(self.sums * np.float64(self.unit), self.unit))
        return Contributed(to_words(self.noise.release(self.sums, self.random), self.unit))

    def following(self, base: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """Returns the totals over all members."""
        return to_state(to_numbers(limbs_of(summed), self.unit))

    def is_over(self, base: Floats) -> bool:
        """Returns False: the one sum is the last by its number."""
        return False


def totals_in(base: Floats) -> Doubles:
    """Returns the totals (n,) in a base after the sum."""
    return doubles_of(base)
