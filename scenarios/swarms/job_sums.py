"""Jobs of several members in one process: all members' words, their sum, and the base that follows.

Words are whole numbers, so an ordinary sum modulo 2^32 is what a secure sum decodes to, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from node.jobs.job import Job, Words
from node.storage.vector_files import Floats


@dataclass(frozen=True)
class JobRun:
    """The last base of a job (d,), how many sums led there, and how many words a member sent in them."""

    base: Floats
    sums: int
    words: int


def summed(jobs: Sequence[Job], base: Floats, generation: int) -> Words:
    """Returns the sum (words(generation),) of all members' words on a base (d,), modulo 2^32."""
    total = np.zeros(jobs[0].words(generation), np.uint32)
    for job in jobs:
        total += job.contribution(base, generation).words
    return total


def replay_job(jobs: Sequence[Job]) -> JobRun:
    """Runs all sums of a job, given as each member has it. Raises UserError where a member or a sum does."""
    members = tuple(number.to_bytes(32) for number in range(len(jobs)))
    base, generation, words = jobs[0].initial(), 0, 0
    while not jobs[0].is_over(base):
        total = summed(jobs, base, generation)
        base = jobs[0].following(base, generation, total, members)
        generation, words = generation + 1, words + len(total)
    return JobRun(base, generation, words)
