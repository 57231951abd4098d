"""A job: a short sequence of secure sums, each decided by the sums before it.

    base 0 ──▶ words of all members ──sum──▶ base 1 ──▶ words of all members ──sum──▶ base 2 ... until over

A base is the job's whole state, and base g, of generation g, is what g sums have made. So the votes on bases,
their certificates, catching up and a restart serve every job. A job stores nothing else. What it caches, it
computes again from the base.

All members compute the same bits. So `initial`, `following` and `is_over` depend on their arguments and on
the task alone, never on a member's own rows, and use no arithmetic whose order or rounding differs between
machines: no BLAS, no sum of floats by numpy, no exp or log (node.jobs.exact_arithmetic).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Event
from node.storage.vector_files import Floats
from protocol.wire.ids import Key

Words = NDArray[np.uint32]
"""Whole numbers modulo 2^32, as a secure sum adds them up."""


@dataclass(frozen=True)
class Contributed:
    """A member's words (w,) for one sum. What else is here stays on the node."""

    words: Words
    loss: float | None = None
    """The mean loss of the base on this member's rows; None: the job has none."""
    not_finite: int = 0
    """How many rows count as zero, because what they would add is not finite."""


class Job(Protocol):
    """What the members of a swarm compute together.

    `words` and `cost` depend on the generation alone: a member charges the next offer before its base exists.
    """

    @property
    def length(self) -> int:
        """d: how many float32 words a base has, the same in all generations."""

    def words(self, generation: int) -> int:
        """Returns how many words the sum has that follows a base of this generation, from 0."""

    def cost(self, generation: int) -> tuple[Event, ...]:
        """Returns what an offer on a base of this generation charges the budget; () without noise."""

    def initial(self) -> Floats:
        """Returns base 0 (d,), of which nothing is known yet."""

    def contribution(self, base: Floats, generation: int) -> Contributed:
        """Returns this member's words (words(generation),) on a base (d,), with new noise if it has noise.

        It runs in a thread. Raises UserError, one line, if this member cannot take part.
        """

    def following(self, base: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """Returns the base (d,) of generation + 1, of finite numbers, as a new array.

        `summed` (words(generation),): the sum modulo 2^32 of the words of `members`, in the order of their
        keys. Raises UserError if no base follows; then none does at any member.
        """

    def is_over(self, base: Floats) -> bool:
        """Returns whether no sum follows a base (d,); a task's number of sums ends a job, too."""
