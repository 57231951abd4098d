"""A job, and beside it counts of how good its bases are on the rows of all members, in the same sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mechanisms.accounting.ledger import Event
from node.jobs.job import Contributed, Job, Words
from node.storage.records import SwarmFigure
from node.storage.vector_files import Floats
from protocol.vectors.pieces import Vector
from protocol.wire.ids import Key


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

    def words(self, vector: Floats, generation: int) -> Vector:
        """Counts for the base (d,) of this generation; returns the words (slots,) of an offer."""

    def read(self, generation: int, words: Vector, members: int) -> SwarmFigure | None:
        """Returns the figure in what a session made of offers on a base; None if there is none."""


@dataclass(frozen=True)
class Beside:
    """The words of a job, and in the sums where they are due, those of counts.

    `is_silent`: this member counts no more, as its budget no longer covers it; it sends zeros.
    """

    job: Job
    counts: SwarmMetric
    is_silent: bool = False

    @property
    def length(self) -> int:
        """The length of the job's bases."""
        return self.job.length

    def words(self, generation: int) -> int:
        """Returns the words of both."""
        return self.job.words(generation) + (self.counts.slots if self.counts.is_due(generation) else 0)

    def cost(self, generation: int) -> tuple[Event, ...]:
        """Returns the charges of both."""
        return self.job.cost(generation) + (self.counts.cost if self._counts(generation) else ())

    def _counts(self, generation: int) -> bool:
        return self.counts.is_due(generation) and not self.is_silent

    def initial(self) -> Floats:
        """Returns the job's first base."""
        return self.job.initial()

    def contribution(self, base: Floats, generation: int) -> Contributed:
        """Returns the words of both; loss and rows are the job's."""
        made = self.job.contribution(base, generation)
        if not self.counts.is_due(generation):
            return made
        counted = self.counts.empty() if self.is_silent else self.counts.words(base, generation)
        words = np.concatenate([made.words, counted.astype(np.uint32)])
        return Contributed(words, made.loss, made.not_finite)

    def following(self, base: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """Returns what the job makes of its own words."""
        return self.job.following(base, generation, summed[: self.job.words(generation)], members)

    def figure(self, generation: int, summed: Words, members: int) -> SwarmFigure | None:
        """Returns what the counts in a sum of so many members say; None if it has none of all of them."""
        return self.counts.read(generation, summed[self.job.words(generation) :], members)

    def is_over(self, base: Floats) -> bool:
        """Returns whether the job is."""
        return self.job.is_over(base)
