"""Contributions of single steps: one sum is one step, whose noise all members share.

    base ──▶ a sample's gradient, this node's share of the noise ──▶ words ──▶ base' = the step from the sum

A node makes no progress alone: a sum that fails costs its charge and does not change the model, and the next
offer has a new sample and new noise.

In a run of steps a node waits for the disk once per step, for the step's vote and the next step's charge:

    charge 1 | vectors, sum | vote 1 + charge 2 | releases, base 1 | vectors, sum | vote 2 + charge 3 | ...

A charge and a vote are on disk before anything beyond their bar leaves. So no release leaves without its vote
and its charge, no vote is stored without its charge, and a crash leaves at most one unused charge.

If the task has a metric of all members (`metric_of_all`), the offers of a round's last step contain counts,
and the charge of such an offer has one release more. After a sum that failed, the next offer has new noise in
its counts, too, and is charged for them again.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass

import numpy as np

from mechanisms.accounting.ledger import Event
from mechanisms.updates.distributed import DistributedDP
from node.runtime.contributions.contribution import Following, Training
from node.runtime.contributions.metric_of_all import SwarmMetric
from node.runtime.privacy.budget import affordable_counts, affordable_steps
from node.storage.records import Receipt
from node.storage.spend_file import Charge
from node.storage.state import State
from node.storage.vector_files import Floats
from node.system.errors import UserError
from node.training.step_trainer import Contributed, StepTrainer
from protocol.actions import Completed, Healed, Spend, Vote
from protocol.vectors.pieces import Vector
from protocol.wire.messages import Base

_AHEAD = b"the charge that was stored with the vote in this session"


@dataclass(frozen=True)
class Charges:
    """Charges of so many steps, and of so many counts beside them; all of a kind cost the same."""

    steps: int
    counts: int

    def plus(self, more: Charges) -> Charges:
        """Returns both together."""
        return Charges(self.steps + more.steps, self.counts + more.counts)

    def minus(self, other: Charges) -> Charges:
        """Returns these charges less the others; neither number falls below zero."""
        return Charges(max(0, self.steps - other.steps), max(0, self.counts - other.counts))


_NOTHING = Charges(0, 0)


class Steps:
    """A node's part in the steps of its swarm."""

    def __init__(
        self, state: State, trainer: StepTrainer, mechanism: DistributedDP, metric: SwarmMetric
    ) -> None:
        self._state = state
        self._trainer = trainer
        self._mechanism = mechanism
        self._metric = metric
        self._waiting: Contributed | None = None
        self._words: Vector = np.empty(0, np.uint32)
        """The words of the waiting offer: those of its gradient, and those of the metric."""
        self._needed = _NOTHING
        """What the waiting offer costs."""
        self._left: Charges | None = None
        """What more the budget allows; None until the first offer: it takes a while to compute."""
        self._paid = _NOTHING
        """The charges that are stored already and that no offer has used."""
        self._round = 0
        """The round of the last offer."""

    def prepare(self, own: int, stop: threading.Event) -> Training:
        """Computes the words of the next step, if the privacy budget allows its charge."""
        self._waiting = None
        state, metric = self._state, self._metric
        base, vector = state.base, state.base_vector
        if state.take_in() or self._left is None:
            counts = affordable_counts(self._mechanism, state.ledger)
            self._left = Charges(affordable_steps(self._mechanism, state.ledger, counts), counts)
        needed = self._needed_on(base.generation)
        if not self._covers(Charges(1, 0)):
            return Training(None, 0.0, False)
        made = self._trainer.contribution(vector)
        counted = metric.words(base, vector) if needed.counts else metric.empty()
        self._words = np.concatenate([made.words, counted]) if len(counted) else made.words
        self._waiting, self._needed = made, needed
        return Training(made.loss, made.seconds, True, made.not_finite)

    def _needed_on(self, generation: int) -> Charges:
        """Returns what an offer on a base of this generation costs: with counts if due and affordable."""
        with_counts = Charges(1, 1)
        return with_counts if self._metric.is_due(generation) and self._covers(with_counts) else Charges(1, 0)

    def _covers(self, needed: Charges) -> bool:
        """Whether what is paid and what the budget allows cover an offer."""
        left = self._left or _NOTHING
        return (
            needed.steps <= left.steps + self._paid.steps and needed.counts <= left.counts + self._paid.counts
        )

    def _events(self, charges: Charges) -> tuple[Event, ...]:
        return self._mechanism.per_offer * charges.steps + self._metric.cost * charges.counts

    def offer(self) -> Vector:
        """Returns the words that were computed last."""
        if self._waiting is None:
            raise UserError("there is nothing to offer")
        return self._words

    def spend(self, spend: Spend, at_ms: int) -> None:
        """Charges the offer, except for what was charged with the previous step's vote."""
        self._round = spend.round
        lacking = self._needed.minus(self._paid)
        self._paid = self._paid.minus(self._needed)
        if lacking == _NOTHING:
            return
        self._left = None if self._left is None else self._left.minus(lacking)
        self._state.charge(spend.sid, spend.round, at_ms, Receipt(self._events(lacking), (), None))

    def vote(self, vote: Vote, at_ms: int) -> None:
        """Stores the vote and the charge of the run's next step, with one wait for the disk.

        The next offer of this process uses that charge, in whatever session. If the process ends before, the
        charge counts all the same.
        """
        open_vote, left = vote.vote, self._left or _NOTHING
        needed = _NOTHING
        if vote.goes_on and self._covers(Charges(1, 0)):
            needed = self._needed_on(self._state.base.generation + 1).minus(self._paid)
        if needed == _NOTHING:
            self._state.bind(open_vote)
            return
        name = hashlib.sha256(_AHEAD + open_vote.sid).digest()  # the next session's id is not known yet
        self._state.bind(open_vote, Charge(name, self._round + 1, at_ms, self._events(needed)))
        self._left, self._paid = left.minus(needed), self._paid.plus(needed)

    def following(self, before: Base, vector: Floats, proof: Completed | Healed) -> Following:
        """Takes the step that all members take, and reads the figure in its sum."""
        step = before.generation + 1
        summed, counts = np.split(proof.result, [len(proof.result) - self._metric.slots])
        swarm = self._metric.read(before, counts, len(proof.contributors))
        return Following(self._trainer.following(vector, step, summed), (), swarm)
