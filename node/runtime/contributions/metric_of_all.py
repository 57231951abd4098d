"""A metric of the swarm as a whole: counts of all members travel in a round's secure sum; only the sum opens.

    updates               offer [ update | weight | stamp | counts ]   words: digits of a number, base 4096
    distributed-dp-sgd    offer [ gradient | stamp | counts ]          words modulo 2^32

Generation g + 1 is the base that a sum makes of base g. If it is a multiple of
`aggregation.swarm_metric_every`, a member counts how base g does on its own test rows
(node.training.figures.tallies), and stamps the counts with g + 1. Any other sum of updates has zeros there.
Where each sum is a step, the counts travel in the last step of a round (node.jobs.beside), and no other has
words for them. If the stamps do not add up to members times (g + 1), some member has counted for another
base or not at all, and there is no figure.

Without noise, a member's counts for a base are in at most one sum: after it spent an offer on this base, it
sends zeros. Else two sums of almost the same members, the first of which failed for some, would show one
member's counts.

With noise, the counts of an offer are one Gaussian release (mechanisms.noised_counts), booked with the
offer's own charge: on disk before a byte that depends on it leaves. Each offer draws new noise and is charged
for it. Once the planned releases are spent, or the budget covers no further one, offers have zeros and there
is no figure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Event
from mechanisms.gradients.shared_noise import in_ring
from mechanisms.noise.randomness import Words
from mechanisms.noised_counts import CountGrid
from node.runtime.contributions.weighting import largest_word
from node.storage.records import SwarmFigure
from node.storage.vector_files import Floats
from node.training.figures.tallies import Sums, Tally, with_errors
from protocol.vectors.pieces import Vector

DIGIT = 4096
"""The base of digits: so small that a mean of float32 words shows the exact sum of 64 members' digits."""
STAMP_DIGITS = 2
_NOISED_DIGITS = 3
_INEXACT = 0.25

Outputs = Callable[[Floats], tuple[torch.Tensor, torch.Tensor]]
"""Returns outputs (n, ...) and targets (n,) of a model on this node's test rows."""


class NoMetric:
    """Nothing is counted."""

    slots = 0
    cost: tuple[Event, ...] = ()

    def is_due(self, generation: int) -> bool:
        """Never."""
        return False

    def empty(self) -> Vector:
        """Returns no words."""
        return np.empty(0, np.float32)

    def words(self, vector: Floats, generation: int) -> Vector:
        """Returns no words."""
        return self.empty()

    def read(self, generation: int, words: Vector, members: int) -> SwarmFigure | None:
        """Returns None."""
        return None


# -- words -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Total:
    """What a sum of offers says: the sum of stamps, modulo 2^32, and of counts (size,) in units."""

    stamps: int
    units: Sums


class Carrier(Protocol):
    """How a stamp and counts in whole units become words of an offer."""

    @property
    def slots(self) -> int:
        """How many words they are."""

    def empty(self) -> Vector:
        """Returns the words (slots,) of an offer without counts."""

    def words(self, stamp: int, units: Sums) -> Vector:
        """Returns the words (slots,) for counts (size,)."""

    def total(self, words: Vector, members: int) -> Total | None:
        """Reads what a session made of the words of `members`; None if honest ones cannot have sent it."""


@dataclass(frozen=True)
class RingWords:
    """One word modulo 2^32 for each number, of a session that adds up whole numbers."""

    size: int

    @property
    def slots(self) -> int:
        """The stamp and the counts."""
        return 1 + self.size

    def empty(self) -> Vector:
        """Returns zeros."""
        return np.zeros(self.slots, np.uint32)

    def words(self, stamp: int, units: Sums) -> Vector:
        """Returns the words; negative numbers are those of the ring."""
        return in_ring(np.concatenate([[float(stamp)], units]))

    def total(self, words: Vector, members: int) -> Total | None:
        """Returns the sum, which the session has exactly."""
        ring = words.astype(np.uint32)
        return Total(int(ring[0]), ring[1:].view(np.int32).astype(np.float64))


@dataclass(frozen=True)
class DigitWords:
    """Digits in float32 within `bound`, of a session that makes means.

    `zero`: the offset that makes numbers of units positive before they become digits.
    """

    size: int
    bound: float
    digits: int
    zero: int = 0

    @classmethod
    def of_tally(cls, tally: Tally, bound: float) -> DigitWords:
        """Returns the words of a tally's counts; those with noise may be negative."""
        if tally.noised:
            return cls(tally.size, bound, _NOISED_DIGITS, DIGIT**_NOISED_DIGITS // 2)
        return cls(tally.size, bound, tally.digits)

    @property
    def slots(self) -> int:
        """The digits of the stamp and of the counts."""
        return STAMP_DIGITS + self.digits * self.size

    @property
    def one(self) -> float:
        """What stands for 1."""
        return float(largest_word(self.bound))

    def empty(self) -> Vector:
        """Returns zeros."""
        return np.zeros(self.slots, np.float32)

    def words(self, stamp: int, units: Sums) -> Vector:
        """Returns the digits of the numbers, shifted to be positive, and cut where they have too many."""
        shifted = np.clip(units + self.zero, 0, DIGIT**self.digits - 1).astype(np.int64)
        digits = [digits_of(np.array([stamp]), STAMP_DIGITS), digits_of(shifted, self.digits)]
        return (np.concatenate(digits) * (self.one / DIGIT)).astype(np.float32)

    def total(self, words: Vector, members: int) -> Total | None:
        """Reads the sum of digits from their mean; None for a negative one, or half of one."""
        exact = words.astype(np.float64) * (members * DIGIT / self.one)
        sums = np.rint(exact)
        if np.abs(exact - sums).max() > _INEXACT or sums.min() < 0:
            return None
        whole = sums.astype(np.int64)
        stamps = numbers_of(whole[:STAMP_DIGITS], STAMP_DIGITS)
        units = numbers_of(whole[STAMP_DIGITS:], self.digits) - members * self.zero
        return Total(int(stamps[0]), units.astype(np.float64))


def digits_of(numbers: NDArray[np.int64], digits: int) -> NDArray[np.int64]:
    """Returns the `digits` digits of each number (k,), the lowest first: (k * digits,)."""
    powers = DIGIT ** np.arange(digits, dtype=np.int64)
    return (numbers[:, None] // powers % DIGIT).reshape(-1)


def numbers_of(sums: NDArray[np.int64], digits: int) -> NDArray[np.int64]:
    """Returns the numbers (k,) of (sums of) digits (k * digits,)."""
    powers = DIGIT ** np.arange(digits, dtype=np.int64)
    numbers: NDArray[np.int64] = (sums.reshape(-1, digits) * powers).sum(1)
    return numbers


# -- counts ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Noise:
    """The noise of counts, on `grid`; `words`: secret.

    `persons` (n,): the person of each test row, where a person is the unit of privacy and counts once; None:
    each row counts.
    """

    grid: CountGrid
    words: Words
    persons: NDArray[np.int64] | None = None

    def units(self, tally: Tally, outputs: torch.Tensor, targets: torch.Tensor) -> Sums:
        """Returns the counts (size,) of a noised `tally` in the grid's units, with this member's noise."""
        if self.persons is None:
            counts = tally.counted(outputs, targets)
        else:
            added = tally.added(outputs, targets)
            counts = self.grid.count_persons(added.places, added.amounts, self.persons, tally.size)
        return self.grid.add_noise(counts, self.words)


class Counted:
    """Counts in every `every`-th sum. This node's figure, `mine`, is exact and never leaves."""

    def __init__(
        self,
        tally: Tally,
        every: int,
        carrier: Carrier,
        outputs: Outputs,
        shows_own: bool = True,
        noise: Noise | None = None,
        first: int = 0,
    ) -> None:
        """`outputs`: with noise, of one row at a time. `noise`: where the tally is noised.

        `first`: the generation of the first base that is counted for.
        `shows_own`: whether this node's rows are enough for a figure of their own.
        """
        self._tally = tally
        self._exact = replace(tally, noised=False)
        self._every = every
        self._carrier = carrier
        self._outputs = outputs
        self._shows_own = shows_own
        self._noise = noise
        self._first = first
        self._own: tuple[int, Sums] | None = None  # the generation of the last base, and its exact counts
        self.slots = carrier.slots

    @property
    def cost(self) -> tuple[Event, ...]:
        """One Gaussian release; without noise there is no budget."""
        return () if self._noise is None else (self._noise.grid.noise.event,)

    def is_due(self, generation: int) -> bool:
        """Whether members count for a base of this generation."""
        return generation >= self._first and (generation + 1) % self._every == 0

    def empty(self) -> Vector:
        """Returns words without counts."""
        return self._carrier.empty()

    def words(self, vector: Floats, generation: int) -> Vector:
        """Returns the words of counts, with new noise; the caller charges `cost` before they leave."""
        outputs, targets = self._outputs(vector)
        exact = self._exact.counted(outputs, targets)
        self._own = (generation, exact) if self._shows_own else None
        units = exact if self._noise is None else self._noise.units(self._tally, outputs, targets)
        return self._carrier.words(generation + 1, units)

    def read(self, generation: int, words: Vector, members: int) -> SwarmFigure | None:
        """Returns the figure of a sum, with its standard error by noise, and this node's exact figure."""
        total = self._carrier.total(words, members) if self.is_due(generation) else None
        if total is None or total.stamps != members * (generation + 1) % 2**32:
            return None
        noise = self._noise
        unit, std = (1.0, 0.0) if noise is None else (noise.grid.unit, noise.grid.sum_std(members))
        found = with_errors(self._tally, total.units * unit, std)
        if found is None:
            return None
        mine = None
        if self._own is not None and self._own[0] == generation:
            mine = self._exact.measured(self._own[1])
        return SwarmFigure(
            **vars(found.headline),
            mine=None if mine is None else mine.metrics[found.headline.metric],
            rows=round(found.rows),
            peers=members,
            generation=generation,
            noised=noise is not None,
            error=found.error,
            unit="row" if noise is None or noise.persons is None else "person",
        )
