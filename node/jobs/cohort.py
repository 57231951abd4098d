"""A job without noise, whose base names the members of its first sum: all sums have these.

Two totals of different members tell what those have added that only one of them has. A contribution is a
function of base and rows: so sums of the same members on one base are one total, however often it is opened.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mechanisms.accounting.ledger import Event
from node.jobs.job import Contributed, Job, Words
from node.jobs.limbs import to_state
from node.storage.vector_files import Floats
from node.system.errors import UserError
from protocol.wire.ids import Key

_DIGEST = 16
"""The float32 words of a digest: 16 bits in each."""


def _digest(members: Iterable[Key]) -> Floats:
    """Returns SHA-256 of these keys in their order, as a part of a base."""
    keys = hashlib.sha256(b"murmuration/1/cohort" + b"".join(sorted(members)))
    return to_state(np.frombuffer(keys.digest(), "<u4"))


@dataclass(frozen=True)
class Cohort:
    """A job, and before its base a digest of who made the first sum; zeros in base 0."""

    job: Job

    @property
    def length(self) -> int:
        """The length of both."""
        return _DIGEST + self.job.length

    def words(self, generation: int) -> int:
        """Returns the job's words."""
        return self.job.words(generation)

    def cost(self, generation: int) -> tuple[Event, ...]:
        """Returns the job's charges."""
        return self.job.cost(generation)

    def initial(self) -> Floats:
        """Returns the job's first base, on which nobody is named."""
        return np.concatenate([np.zeros(_DIGEST, np.float32), self.job.initial()])

    def contribution(self, base: Floats, generation: int) -> Contributed:
        """Returns the job's words."""
        return self.job.contribution(self.of_job(base), generation)

    def following(self, base: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """Returns the job's next base; the first sum names its members.

        Raises UserError if a later sum is of others than those.
        """
        if generation and not self.names(base, members):
            raise UserError("a sum of other members than those of the first one: nothing follows from it")
        return np.concatenate(
            [_digest(members), self.job.following(self.of_job(base), generation, summed, members)]
        )

    def is_over(self, base: Floats) -> bool:
        """Returns whether the job is."""
        return self.job.is_over(self.of_job(base))

    def of_job(self, base: Floats) -> Floats:
        """Returns a view of the job's own base."""
        return base[_DIGEST:]

    def names(self, base: Floats, members: Iterable[Key]) -> bool:
        """Returns whether a base after the first sum is of exactly these members."""
        return hmac.compare_digest(base[:_DIGEST].tobytes(), _digest(members).tobytes())
