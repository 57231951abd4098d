"""A metric of the swarm with privacy: counts with noise in a round's secure sum, charged before they leave.

    dp-sgd                offer [ update | weight | stamp | counts ]   digits of float32, as without privacy
    distributed-dp-sgd    offer [ gradient | stamp | counts ]          words modulo 2^32

Where each sum is a step, the counts travel in the last step of a round. All other offers have zeros in the
place of counts, so sessions, votes and lengths are the same in every sum.

The counts of an offer are one Gaussian release (mechanisms.noised_counts), booked with the offer's own
charge: on disk before a byte that depends on it leaves. Each offer draws new noise and is charged for it.
Once the planned releases are spent, or the budget covers no further one, offers have zeros and there is no
figure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Event
from mechanisms.gradients.distributed import in_ring
from mechanisms.noise.randomness import Words
from mechanisms.noised_counts import CountGrid
from node.runtime.contributions.metric_of_all import (
    DIGIT,
    STAMP_DIGITS,
    Outputs,
    Own,
    digits_of,
    figure_of,
    is_due,
    numbers_of,
    whole_digits,
)
from node.runtime.contributions.weighting import largest_word
from node.storage.records import SwarmFigure
from node.storage.vector_files import Floats
from node.training.figures.noised_tallies import NoisedTally, Sums, noised_measure, of_rows
from node.training.figures.tallies import Tally
from protocol.vectors.pieces import Vector
from protocol.wire.messages import Base

_COUNT_DIGITS = 3
_ZERO = DIGIT**_COUNT_DIGITS // 2
"""The offset that makes a number of units positive before it becomes digits: 2^35."""


@dataclass(frozen=True)
class Total:
    """What a sum of offers says: the sum of stamps, modulo 2^32, and of counts (size,) in units."""

    stamps: int
    units: NDArray[np.float64]


class Carrier(Protocol):
    """How a stamp and counts in whole units become words of an offer."""

    @property
    def slots(self) -> int:
        """How many words they are."""

    def empty(self) -> Vector:
        """Returns the words (slots,) of an offer without counts."""

    def words(self, stamp: int, units: NDArray[np.float64]) -> Vector:
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

    def words(self, stamp: int, units: NDArray[np.float64]) -> Vector:
        """Returns the words; negative numbers are those of the ring."""
        return in_ring(np.concatenate([[float(stamp)], units]))

    def total(self, words: Vector, members: int) -> Total | None:
        """Returns the sum, which the session has exactly."""
        ring = words.astype(np.uint32)
        return Total(int(ring[0]), ring[1:].view(np.int32).astype(np.float64))


@dataclass(frozen=True)
class DigitWords:
    """Digits in float32 within `bound`, of a session that makes means (see `metric_of_all`)."""

    size: int
    bound: float

    @property
    def slots(self) -> int:
        """The digits of the stamp and of the counts."""
        return STAMP_DIGITS + _COUNT_DIGITS * self.size

    @property
    def _one(self) -> float:
        return float(largest_word(self.bound))

    def empty(self) -> Vector:
        """Returns zeros."""
        return np.zeros(self.slots, np.float32)

    def words(self, stamp: int, units: NDArray[np.float64]) -> Vector:
        """Returns the digits of the numbers, shifted to be positive, and cut where they have too many."""
        shifted = np.clip(units + _ZERO, 0, 2 * _ZERO - 1).astype(np.int64)
        digits = [digits_of(np.array([stamp]), STAMP_DIGITS), digits_of(shifted, _COUNT_DIGITS)]
        return (np.concatenate(digits) * (self._one / DIGIT)).astype(np.float32)

    def total(self, words: Vector, members: int) -> Total | None:
        """Reads the sum of digits from their mean."""
        whole = whole_digits(words, members, self._one)
        if whole is None:
            return None
        stamps = numbers_of(whole[:STAMP_DIGITS], STAMP_DIGITS)
        units = numbers_of(whole[STAMP_DIGITS:], _COUNT_DIGITS) - members * _ZERO
        return Total(int(stamps[0]), units.astype(np.float64))


class NoisedCounts:
    """Counts with noise in every `every`-th sum. This node's figure, `mine`, is exact and never leaves."""

    def __init__(
        self,
        exact: Tally,
        tally: NoisedTally,
        grid: CountGrid,
        every: int,
        carrier: Carrier,
        outputs: Outputs,
        noise: Words,
        shows_own: bool = True,
        persons: NDArray[np.int64] | None = None,
    ) -> None:
        """`exact` counts as `tally` does, without noise; `outputs`: of one row at a time; `noise`: secret.

        `shows_own`: whether this node's rows are enough for a figure of their own. `persons` (n,): the person
        of each test row, where a person is the unit of privacy and counts once; None: each row counts.
        """
        self._exact = exact
        self._tally = tally
        self._grid = grid
        self._every = every
        self._carrier = carrier
        self._outputs = outputs
        self._noise = noise
        self._shows_own = shows_own
        self._persons = persons
        self._own: Own | None = None
        self.slots = carrier.slots

    @property
    def cost(self) -> tuple[Event, ...]:
        """One Gaussian release."""
        return (self._grid.noise.event,)

    def is_due(self, generation: int) -> bool:
        """Whether members count for a base of this generation."""
        return is_due(generation, self._every)

    def empty(self) -> Vector:
        """Returns words without counts."""
        return self._carrier.empty()

    def words(self, base: Base, vector: Floats) -> Vector:
        """Returns the words of counts with new noise; the caller charges `cost` before they leave."""
        outputs, targets = self._outputs(vector)
        mine = Own(base.generation, self._exact.counted(outputs, targets))
        self._own = mine if self._shows_own else None
        units = self._grid.add_noise(self._counts(outputs, targets), self._noise)
        return self._carrier.words(base.generation + 1, units)

    def _counts(self, outputs: torch.Tensor, targets: torch.Tensor) -> Sums:
        if self._persons is None:
            return of_rows(self._tally, outputs, targets)
        added = self._tally.added(outputs, targets)
        return self._grid.count_persons(added.places, added.amounts, self._persons, self._tally.size)

    def read(self, before: Base, words: Vector, members: int) -> SwarmFigure | None:
        """Returns the figure of a noised sum, with its standard error, and this node's exact figure."""
        total = self._carrier.total(words, members) if self.is_due(before.generation) else None
        if total is None or total.stamps != members * (before.generation + 1) % 2**32:
            return None
        std = self._grid.sum_std(members)
        found = noised_measure(self._tally, total.units * self._grid.unit, std)
        if found is None:
            return None
        own, metric = self._own, found.headline.metric
        mine = None if own is None else own.value(self._exact, before.generation, metric)
        figure = figure_of(found.headline, found.rows, mine, before, members)
        unit = "row" if self._persons is None else "person"
        return replace(figure, noised=True, error=found.error, unit=unit)
