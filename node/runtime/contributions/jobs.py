"""Contributions to a job: each sum is made of words for one base, and makes the next one.

    base ──▶ words, with this node's noise if the job has noise ──▶ base' = what the job makes of the sum

A node makes no progress alone: a sum that fails costs its charge and does not change the base, and the next
offer has new noise.

In a run of sums a node waits for the disk once per sum, for its vote and the next offer's charge:

    charge 1 | vectors, sum | vote 1 + charge 2 | releases, base 1 | vectors, sum | vote 2 + charge 3 | ...

A charge and a vote are on disk before anything beyond their bar leaves. So no release leaves without its vote
and its charge, no vote is stored without its charge, and a crash leaves at most one unused charge.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable

from mechanisms.accounting.ledger import NO_BOUND, Event
from mechanisms.accounting.terms import has_no_bound
from mechanisms.mechanism import Mechanism
from node.jobs.cohort import Cohort
from node.jobs.job import Job, Words
from node.runtime.contributions.contribution import NO_TRAINING, Following, Training
from node.runtime.privacy.budget import affordable
from node.storage.records import Receipt, SwarmFigure
from node.storage.spend_file import Charge
from node.storage.state import State
from node.storage.vector_files import Floats
from node.system.errors import UserError
from protocol.actions import Completed, Healed, Spend, Vote
from protocol.wire.messages import Base

_AHEAD = b"the charge that was stored with the vote in this session"

Figure = Callable[[int, Words, int], SwarmFigure | None]
"""Reads a metric of all members' rows from the sum (w,) on a base of a generation, by so many members."""


def no_figure(generation: int, summed: Words, members: int) -> None:
    """Reads nothing: the sums have no metric."""


class JobSums:
    """A node's part in the sums of a job."""

    def __init__(
        self,
        state: State,
        job: Job,
        mechanism: Mechanism,
        cheaper: Job | None = None,
        figure: Figure = no_figure,
    ) -> None:
        """`cheaper`: the same job, of the same words, once the budget does not cover `job`.

        A `Cohort` has the same members in all sums: a node that was not in the first one offers nothing.
        """
        self._state = state
        self._job = job
        self._ways = (job,) if cheaper is None else (job, cheaper)
        self._mechanism = mechanism
        self._figure = figure
        self._words: Words | None = None
        """The waiting offer."""
        self._needed = Counter[Event]()
        """What the waiting offer costs."""
        self._left: Counter[Event] | None = None
        """What more the budget allows; None until the first offer: it takes a while to compute."""
        self._paid = Counter[Event]()
        """The charges that are stored already and that no offer has used."""
        self._round = 0
        """The round of the last offer."""

    def prepare(self, own: int, stop: threading.Event) -> Training:
        """Computes the words for the next sum, if the privacy budget allows their charge."""
        self._words = None
        base, vector = self._state.base_and_vector
        if self._state.take_in() or self._left is None:
            self._left = affordable(self._mechanism, self._state.ledger)
        way = self._affordable(base.generation)
        if way is None or self._is_late(base, vector):
            return NO_TRAINING
        begun = time.perf_counter()
        made = way.contribution(vector, base.generation)
        self._words, self._needed = made.words, Counter(way.cost(base.generation))
        seconds = time.perf_counter() - begun
        return Training(made.loss, seconds, True, made.not_finite, made_for=base)

    def _is_late(self, base: Base, vector: Floats) -> bool:
        """Returns whether all sums are of others, that were in the first one.

        Raises UserError if those that sign the base are not those that it names.
        """
        line = self._state.line
        if not isinstance(self._job, Cohort) or line.electors is None:
            return False
        if line.anchor != base.generation or not self._job.names(vector, line.electors.members):
            raise UserError("a base names other members than those that made it: this node offers nothing")
        return self._state.owner.key not in line.electors.members

    def _affordable(self, generation: int) -> Job | None:
        """Returns the job in the way that the budget covers on a base of this generation; None: in none."""
        covered = (self._left or Counter()) + self._paid
        return next((way for way in self._ways if Counter(way.cost(generation)) <= covered), None)

    def offer(self) -> Words:
        """Returns the words that were computed last."""
        if self._words is None:
            raise UserError("there is nothing to offer")
        return self._words

    def spend(self, spend: Spend, at_ms: int) -> None:
        """Charges the offer, except for what was charged with the previous sum's vote."""
        self._round = spend.round
        lacking = self._needed - self._paid
        self._paid -= self._needed
        if self._needed and not lacking:
            return
        events = self._booked(lacking)
        if self._mechanism.guarantee is None and not has_no_bound(self._state.ledger):
            events = (*events, NO_BOUND)
        self._state.charge(spend.sid, spend.round, at_ms, Receipt(events, (), None))

    def _booked(self, lacking: Counter[Event]) -> tuple[Event, ...]:
        """Takes these charges from what the budget allows; returns them one by one."""
        self._left = None if self._left is None else self._left - lacking
        return tuple(lacking.elements())

    def vote(self, vote: Vote, at_ms: int) -> None:
        """Stores the vote and the charge of the run's next offer, with one wait for the disk.

        The next offer of this process uses that charge, in whatever session. If the process ends before, the
        charge counts all the same.
        """
        open_vote, generation = vote.vote, self._state.base.generation + 1
        way = self._affordable(generation) if vote.goes_on else None
        needed = Counter[Event]() if way is None else Counter(way.cost(generation)) - self._paid
        if not needed:
            self._state.bind(open_vote)
            return
        name = hashlib.sha256(_AHEAD + open_vote.sid).digest()  # the next session's id is not known yet
        self._state.bind(open_vote, Charge(name, self._round + 1, at_ms, self._booked(needed)))
        self._paid += needed

    def following(self, before: Base, vector: Floats, proof: Completed | Healed) -> Following:
        """Makes the base that all members make of the sum, and reads the figure in it."""
        generation, members, summed = before.generation, proof.contributors, proof.result
        figure = self._figure(generation, summed, len(members))
        return Following(self._job.following(vector, generation, summed, tuple(sorted(members))), (), figure)

    def is_over(self, vector: Floats) -> bool:
        """Returns whether the job ends with the base (d,)."""
        return self._job.is_over(vector)
