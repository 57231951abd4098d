"""A metric of the swarm as a whole: counts of all members travel in a round's secure sum; only the sum opens.

    offer [ update | weight | stamp | counts ]        each word a digit of a whole number, base 4096

Generation g + 1 is the base that a sum makes of base g. If it is a multiple of
`aggregation.swarm_metric_every`, a member counts how base g does on its own test rows
(node.training.tallies), and stamps the counts with g + 1; in all other sums these words are zero. If the
stamps do not add up to members times (g + 1), some member has counted for another base or not at all, and
there is no figure.

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

from node.runtime.weighting import largest_word
from node.storage.records import SwarmFigure
from node.storage.vector_files import Floats
from node.task.sections import AggregationSection
from node.training.tallies import Counts, Tally
from protocol.wire.messages import Base

DIGIT = 4096
"""The base of digits: so small that a mean of float32 words shows the exact sum of 64 members' digits."""
_STAMP_DIGITS = 2
_INEXACT = 0.25

Outputs = Callable[[Floats], tuple[torch.Tensor, torch.Tensor]]
"""Returns outputs (n, ...) and targets (n,) of a model on this node's test rows."""


class SwarmMetric(Protocol):
    """What an offer says about the model, and what a sum says about it."""

    slots: int
    """How many words a summed vector has for it, at its end."""

    def words(self, base: Base, vector: Floats, is_first: bool) -> Floats:
        """Returns the words (slots,) of an offer on `base`, whose vector is given.

        `is_first`: whether nothing was offered on this base before.
        """

    def read(self, before: Base, words: Floats, members: int) -> SwarmFigure | None:
        """Returns the figure in the mean (slots,) of `members` offers on `before`; None if there is none."""


class NoMetric:
    """Nothing is counted."""

    slots = 0

    def words(self, base: Base, vector: Floats, is_first: bool) -> Floats:
        """Returns no words."""
        return np.empty(0, np.float32)

    def read(self, before: Base, words: Floats, members: int) -> SwarmFigure | None:
        """Returns None."""
        return None


@dataclass(frozen=True)
class Own:
    """This node's own counts, and the generation of the base that they are for."""

    generation: int
    counts: Counts


class Counted:
    """Counts in every `every`-th sum. It remembers its own for the last base, to show mine beside all."""

    def __init__(self, tally: Tally, every: int, bound: float, outputs: Outputs) -> None:
        self._tally = tally
        self._every = every
        self._one = largest_word(bound)
        self._outputs = outputs
        self._own: Own | None = None
        self._digits = digits_for(tally.largest)
        self.slots = _STAMP_DIGITS + self._digits * tally.size

    def words(self, base: Base, vector: Floats, is_first: bool) -> Floats:
        """Counts for this base if it is due and nothing was offered on it; else zeros."""
        if not (is_first and self._is_due(base)):
            return np.zeros(self.slots, np.float32)
        counts = np.minimum(self._tally.counted(*self._outputs(vector)), self._tally.largest)
        self._own = Own(base.generation, counts)
        stamp = digits_of(np.array([base.generation + 1]), _STAMP_DIGITS)
        digits = np.concatenate([stamp, digits_of(counts, self._digits)])
        return (digits * (float(self._one) / DIGIT)).astype(np.float32)

    def read(self, before: Base, words: Floats, members: int) -> SwarmFigure | None:
        """Returns the metrics of all members' rows, and this node's own by the same formula."""
        if not self._is_due(before):
            return None
        exact = words.astype(np.float64) * (members * DIGIT / float(self._one))
        sums = np.rint(exact)
        if np.abs(exact - sums).max() > _INEXACT or sums.min() < 0:
            return None
        whole = sums.astype(np.int64)
        stamp = numbers_of(whole[:_STAMP_DIGITS], _STAMP_DIGITS)
        if stamp[0] != members * (before.generation + 1):
            return None
        found = self._tally.measured(numbers_of(whole[_STAMP_DIGITS:], self._digits))
        if found is None:
            return None
        return SwarmFigure(
            metric=found.headline.metric,
            value=found.headline.value,
            baseline=found.headline.baseline,
            only_class=found.headline.only_class,
            mine=self._mine(before, found.headline.metric),
            rows=found.rows,
            peers=members,
            generation=before.generation,
        )

    def _is_due(self, base: Base) -> bool:
        return (base.generation + 1) % self._every == 0

    def _mine(self, before: Base, metric: str) -> float | None:
        """Returns this node's value of a metric for the same model, on its own rows."""
        if self._own is None or self._own.generation != before.generation:
            return None
        found = self._tally.measured(self._own.counts)
        return None if found is None else found.metrics[metric]


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


def swarm_metric_words(section: AggregationSection) -> dict[str, str]:
    """Returns the start-up line on what is counted, and who learns it; empty if nothing is."""
    if section.swarm_metric == "none":
        return {}
    return {
        "metric of all": f"every {section.swarm_metric_every} rounds, {_COUNTED[section.swarm_metric]} go "
        "into the sum; nobody sees those of one node alone, and no noise covers the total"
    }


_COUNTED = {
    "confusion": "counts of your test rows by true and predicted class",
    "scores": "counts of your test rows by class and score",
    "sums": "sums over your test rows, of rows and errors",
}
