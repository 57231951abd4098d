"""A job, and after it one sum of counts: how good its last base is on the test rows of all members.

    base of the job, over ──▶ counts of all members ──sum──▶ the same base, and their total

The total is a part of the base. So who comes late, or was away, has it with the model. No other base is
counted for: of each member one set of counts is in one total. A sum has the words for counts where the job
may be over before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from mechanisms.accounting.ledger import Event
from node.jobs import limbs
from node.jobs.job import Contributed, Job, Words
from node.storage.records import SwarmFigure
from node.storage.vector_files import Floats
from node.training.figures.tallies import Sums, Tally
from protocol.wire.ids import Key

PURPOSE = "metric"
"""What the last sum is for, in a word."""

Outputs = Callable[[Floats], tuple[torch.Tensor, torch.Tensor]]
"""Returns the outputs (n, ...) and targets (n,) of a job's base on this member's test rows."""


class BoundedJob(Job, Protocol):
    """A job that knows its most sums, and may be over after each `round_sums` of them."""

    @property
    def most_sums(self) -> int:
        """The most sums of the job."""

    @property
    def round_sums(self) -> int:
        """How many sums are a round, as people count them."""


@dataclass(frozen=True)
class FinalCounts:
    """A job without noise, and before its end the counts of an exact `tally`.

    `shows_own`: whether this member's test rows are enough for a figure of their own.
    """

    job: BoundedJob
    tally: Tally
    outputs: Outputs
    shows_own: bool = True

    @property
    def length(self) -> int:
        """The length of the job's bases, the number of members in the total, and the total."""
        return self.job.length + len(limbs.to_state(np.zeros(1 + self.tally.size)))

    @property
    def most_sums(self) -> int:
        """Those of the job, and one."""
        return self.job.most_sums + 1

    def words(self, generation: int) -> int:
        """Returns the job's words, or those of counts if these are more and may be due."""
        own = self.job.words(generation) if generation < self.job.most_sums else 0
        return own if generation % self.job.round_sums else max(own, limbs.LIMBS * self.tally.size)

    def cost(self, generation: int) -> tuple[Event, ...]:
        """Returns (): nothing has noise."""
        return ()

    def initial(self) -> Floats:
        """Returns the job's first base, without a total."""
        return np.concatenate([self.job.initial(), limbs.to_state(np.zeros(1 + self.tally.size))])

    def contribution(self, base: Floats, generation: int) -> Contributed:
        """Returns the job's words, or the counts of its last base, with zeros behind them."""
        own = self.of_job(base)
        if self.job.is_over(own):
            made = Contributed(limbs.to_words(self._counted(base), 1.0))
        else:
            made = self.job.contribution(own, generation)
        words = np.zeros(self.words(generation), np.uint32)
        words[: len(made.words)] = made.words
        return Contributed(words, made.loss, made.not_finite)

    def _counted(self, base: Floats) -> Sums:
        return self.tally.counted(*self.outputs(self.of_job(base)))

    def following(self, base: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """Returns what the job makes of its words, or its last base with the total of counts."""
        own = self.of_job(base)
        if not self.job.is_over(own):
            after = self.job.following(own, generation, summed[: self.job.words(generation)], members)
            return np.concatenate([after, base[len(own) :]])
        total = limbs.to_numbers(limbs.limbs_of(summed[: limbs.LIMBS * self.tally.size]), 1.0)
        return np.concatenate([own, limbs.to_state(np.array([len(members), *total]))])

    def is_over(self, base: Floats) -> bool:
        """Returns whether a base has the total."""
        return bool(self._total(base)[0])

    def of_job(self, base: Floats) -> Floats:
        """Returns a view of the job's own base."""
        return base[: self.job.length]

    def _total(self, base: Floats) -> Sums:
        """Returns the number of members, and the total of their counts."""
        return limbs.doubles_of(base[self.job.length :])

    def figure(self, base: Floats, generation: int) -> SwarmFigure | None:
        """Returns what the total in a base of this generation says.

        None without one, without a row, or if honest members cannot have it.
        """
        members, *total = self._total(base)
        found = self.tally.measured(np.array(total)) if members and min(total) >= 0 else None
        if found is None:
            return None
        mine = self.tally.measured(self._counted(base)) if self.shows_own else None
        return SwarmFigure(
            **vars(found.headline),
            mine=None if mine is None else mine.metrics.get(found.headline.metric),
            rows=round(found.rows),
            peers=int(members),
            generation=generation - 1,
        )
