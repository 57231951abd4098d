"""A small exact job: the totals of all members' numbers, then, in two passes, squares about their mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mechanisms.accounting.ledger import Event
from mechanisms.mechanism import Unprotected
from node.app.again import begin_again, begun_again
from node.app.jobs import prepare_job
from node.app.run import Prepared
from node.app.study import About
from node.jobs.cohort import Cohort
from node.jobs.exact_arithmetic import Doubles
from node.jobs.job import Contributed, Words
from node.jobs.limbs import LIMBS, doubles_of, limbs_of, to_numbers, to_state, to_words
from node.options import NodeOptions
from node.storage.vector_files import Floats
from node.system.system import SYSTEM, System
from node.task.parameters import canonical_parameters
from protocol.wire.ids import Key

UNIT = 2.0**-30
NEEDED, MOST = 3, 6
"""The sums after which it is over, and the most that it is given."""


@dataclass(frozen=True)
class Squares:
    """A base has the number of sums, the numbers' count, their total, and their squares about the mean."""

    numbers: Doubles
    length = 4 * 4

    def words(self, generation: int) -> int:
        """Returns the words of two numbers, then those of one."""
        return LIMBS * (1 if generation else 2)

    def cost(self, generation: int) -> tuple[Event, ...]:
        """Returns nothing."""
        return ()

    def initial(self) -> Floats:
        """Returns zeros."""
        return np.zeros(self.length, np.float32)

    def contribution(self, base: Floats, generation: int) -> Contributed:
        """Returns count and total, or squares."""
        _, count, total, _ = doubles_of(base)
        if not generation:
            return Contributed(to_words(np.array([len(self.numbers), self.numbers.sum()]), UNIT))
        return Contributed(to_words(np.array([((self.numbers - total / count) ** 2).sum()]), UNIT))

    def following(self, base: Floats, generation: int, summed: Words, members: tuple[Key, ...]) -> Floats:
        """Returns what is known with this sum."""
        assert len(summed) == self.words(generation)
        _, count, total, squares = doubles_of(base)
        found = to_numbers(limbs_of(summed), UNIT)
        known = (count, total, found[0]) if generation else (*found, squares)
        return to_state(np.array([generation + 1.0, *known]))

    def is_over(self, base: Floats) -> bool:
        """Returns whether both passes are done."""
        return bool(doubles_of(base)[0] >= NEEDED)


def numbers_of(site: int) -> Doubles:
    """Returns the numbers of a site."""
    return np.random.default_rng(site).normal(site, 1.0, 40 + site)


def prepare_squares(options: NodeOptions, system: System = SYSTEM) -> Prepared:
    """Prepares a node that computes squares; its shard says whose numbers it has."""
    assert options.shard is not None
    job = Cohort(Squares(numbers_of(options.shard[0])))
    begin_again(options, lambda _: False, system)
    again = begun_again(options)
    parameters = canonical_parameters(options.task, [("squares", (job.length,))], None, again=again)
    about = About(data="numbers", what="squares", notes={})
    return prepare_job(
        options, about, job, Unprotected(), parameters, name="squares", sums=MOST, tries=MOST, system=system
    )
