"""A metric of the swarm as a whole: counts of all members travel in a round's secure sum; only the sum opens.

    offer [ update | weight | stamp | counts ]        each word a digit of a whole number, base 4096

Generation g + 1 is the base that a sum makes of base g. If it is a multiple of
`aggregation.swarm_metric_every`, a member counts how base g does on its own test rows
(node.training.figures.tallies), and stamps the counts with g + 1; in all other sums these words are zero. If
the stamps do not add up to members times (g + 1), some member has counted for another base or not at all, and
there is no figure. `noised_metric` has the same with privacy.

A member's counts for a base are in at most one sum: after it spent an offer on this base, it sends zeros.
Else two sums of almost the same members, the first of which failed for some, would show one member's counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Event
from node.runtime.contributions.weighting import largest_word
from node.storage.records import SwarmFigure
from node.storage.vector_files import Floats
from node.training.figures.headline import Headline
from node.training.figures.tallies import Counts, Tally
from protocol.vectors.pieces import Vector
from protocol.wire.messages import Base

DIGIT = 4096
"""The base of digits: so small that a mean of float32 words shows the exact sum of 64 members' digits."""
STAMP_DIGITS = 2
_INEXACT = 0.25

Outputs = Callable[[Floats], tuple[torch.Tensor, torch.Tensor]]
"""Returns outputs (n, ...) and targets (n,) of a model on this node's test rows."""


class SwarmMetric(Protocol):
    """What an offer says about the model, and what a sum says about it."""

    slots: int
    """How many words a summed vector has for it, at its end."""

    @property
    def cost(self) -> tuple[Event, ...]:
        """What counts in an offer cost; its caller charges it before they leave."""

    def is_due(self, generation: int) -> bool:
        """Whether members count for a base of this generation."""

    def empty(self) -> Vector:
        """Returns the words (slots,) of an offer without counts."""

    def words(self, base: Base, vector: Floats) -> Vector:
        """Counts for `base`, whose vector is given; returns the words (slots,) of an offer."""

    def read(self, before: Base, words: Vector, members: int) -> SwarmFigure | None:
        """Returns the figure in the mean (slots,) of `members` offers on `before`; None if there is none."""


class NoMetric:
    """Nothing is counted."""

    slots = 0

    @property
    def cost(self) -> tuple[Event, ...]:
        """Nothing."""
        return ()

    def is_due(self, generation: int) -> bool:
        """Never."""
        return False

    def empty(self) -> Vector:
        """Returns no words."""
        return np.empty(0, np.float32)

    def words(self, base: Base, vector: Floats) -> Vector:
        """Returns no words."""
        return self.empty()

    def read(self, before: Base, words: Vector, members: int) -> SwarmFigure | None:
        """Returns None."""
        return None


@dataclass(frozen=True)
class Own:
    """This node's own counts, and the generation of the base that they are for."""

    generation: int
    counts: Counts

    def value(self, tally: Tally, generation: int, metric: str) -> float | None:
        """Returns this node's value of a metric for a base of `generation`; None if these are of another."""
        found = tally.measured(self.counts) if self.generation == generation else None
        return None if found is None else found.metrics[metric]


class Counted:
    """Counts in every `every`-th sum. It remembers this node's counts for the last base, to show `mine`."""

    def __init__(
        self, tally: Tally, every: int, bound: float, outputs: Outputs, shows_own: bool = True
    ) -> None:
        """`shows_own`: whether this node's rows are enough for a figure of their own."""
        self._tally = tally
        self._every = every
        self._one = largest_word(bound)
        self._outputs = outputs
        self._shows_own = shows_own
        self._own: Own | None = None
        self._digits = digits_for(tally.largest)
        self.slots = STAMP_DIGITS + self._digits * tally.size

    @property
    def cost(self) -> tuple[Event, ...]:
        """Nothing: there is no noise, and no budget."""
        return ()

    def is_due(self, generation: int) -> bool:
        """Whether members count for a base of this generation."""
        return is_due(generation, self._every)

    def empty(self) -> Vector:
        """Returns zeros."""
        return np.zeros(self.slots, np.float32)

    def words(self, base: Base, vector: Floats) -> Vector:
        """Counts for this base."""
        counts = np.minimum(self._tally.counted(*self._outputs(vector)), self._tally.largest)
        self._own = Own(base.generation, counts) if self._shows_own else None
        stamp = digits_of(np.array([base.generation + 1]), STAMP_DIGITS)
        digits = np.concatenate([stamp, digits_of(counts, self._digits)])
        return (digits * (float(self._one) / DIGIT)).astype(np.float32)

    def read(self, before: Base, words: Vector, members: int) -> SwarmFigure | None:
        """Returns the metrics of all members' rows, and this node's own by the same formula."""
        whole = whole_digits(words, members, float(self._one)) if self.is_due(before.generation) else None
        if whole is None:
            return None
        stamp = numbers_of(whole[:STAMP_DIGITS], STAMP_DIGITS)
        if stamp[0] != members * (before.generation + 1):
            return None
        found = self._tally.measured(numbers_of(whole[STAMP_DIGITS:], self._digits))
        if found is None:
            return None
        own, metric = self._own, found.headline.metric
        mine = None if own is None else own.value(self._tally, before.generation, metric)
        return figure_of(found.headline, found.rows, mine, before, members)


def figure_of(headline: Headline, rows: int, mine: float | None, before: Base, members: int) -> SwarmFigure:
    """Returns the figure of `rows` rows that a sum of `members` offers on `before` gives."""
    generation = before.generation
    return SwarmFigure(**vars(headline), mine=mine, rows=rows, peers=members, generation=generation)


def is_due(generation: int, every: int) -> bool:
    """Whether the sum that follows a base of this generation is an `every`-th one."""
    return (generation + 1) % every == 0


def whole_digits(words: Vector, members: int, one: float) -> Counts | None:
    """Returns the sums of digits (k,) in the mean (k,) of `members`, where `one` stands for 1.

    None if honest members cannot have sent them: a negative one, or half of one.
    """
    exact = words.astype(np.float64) * (members * DIGIT / one)
    sums = np.rint(exact)
    if np.abs(exact - sums).max() > _INEXACT or sums.min() < 0:
        return None
    return sums.astype(np.int64)


def digits_for(largest: int) -> int:
    """Returns how many digits the whole numbers up to `largest` have."""
    return -(-largest.bit_length() // (DIGIT.bit_length() - 1))


def digits_of(numbers: Counts, digits: int) -> Counts:
    """Returns the `digits` digits of each number (k,), the lowest first: (k * digits,)."""
    powers = DIGIT ** np.arange(digits, dtype=np.int64)
    return (numbers[:, None] // powers % DIGIT).reshape(-1)


def numbers_of(sums: Counts, digits: int) -> Counts:
    """Returns the numbers (k,) of (sums of) digits (k * digits,)."""
    powers = DIGIT ** np.arange(digits, dtype=np.int64)
    numbers: NDArray[np.int64] = (sums.reshape(-1, digits) * powers).sum(1)
    return numbers
