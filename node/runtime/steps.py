"""Contributions of single steps: one sum is one step, whose noise all members share.

    base ──▶ a sample's gradient, this node's share of the noise ──▶ words ──▶ base' = the step from the sum

There is no progress of one's own: a sum that fails costs its charge and leaves the model alone, and the next
offer has a new sample and new noise.

In a run of steps the disk is waited for once a step, for its vote and the next step's charge:

    charge 1 | vectors, sum | vote 1 + charge 2 | releases, base 1 | vectors, sum | vote 2 + charge 3 | ...

Before the bar, what it names is on disk. So no release leaves without its vote and its charge, no vote is
stored without its charge, and a crash leaves at most one charge that no offer has used.
"""

from __future__ import annotations

import hashlib
import threading

from mechanisms.updates.distributed import DistributedDP
from node.errors import UserError
from node.runtime.contribution import Following, Training
from node.runtime.privacy_budget import affordable_steps
from node.storage.records import Receipt
from node.storage.spend_file import Charge
from node.storage.state import State
from node.storage.vector_files import Floats
from node.training.step_trainer import Contributed, StepTrainer
from protocol.actions import Completed, Healed, Spend, Vote
from protocol.vectors.pieces import Vector
from protocol.wire.messages import Base

_AHEAD = b"the charge that was stored with the vote in this session"


class Steps:
    """A node's part in the steps of its swarm."""

    def __init__(self, state: State, trainer: StepTrainer, mechanism: DistributedDP) -> None:
        self._state = state
        self._trainer = trainer
        self._mechanism = mechanism
        self._waiting: Contributed | None = None
        self._left: int | None = None
        """How many more charges the budget allows; None until the first one: it takes a while to compute."""
        self._is_paid = False
        """Whether the next offer is charged already: no offer has used the last charge. All cost the same."""
        self._round = 0
        """The round of the last offer."""

    def prepare(self, number: int, stop: threading.Event) -> Training:
        """Computes the words of the next step, if the privacy budget allows its charge."""
        self._waiting = None
        if self._left is None:
            self._left = affordable_steps(self._mechanism, self._state.ledger)
        if self._left == 0 and not self._is_paid:
            return Training(None, 0.0, False)
        self._waiting = made = self._trainer.contribution(self._state.base_vector)
        return Training(made.loss, made.seconds, True, made.not_finite)

    def offer(self) -> Vector:
        """Returns the words that were computed last."""
        if self._waiting is None:
            raise UserError("there is nothing to offer")
        return self._waiting.words

    def spend(self, spend: Spend, at_ms: int) -> None:
        """Charges the step, unless the vote of the step before it has done so."""
        self._round = spend.round
        if self._is_paid:
            self._is_paid = False
            return
        receipt = Receipt(self._mechanism.per_offer, (), None)
        self._left = None if self._left is None else self._left - 1
        self._state.charge(spend.sid, spend.round, at_ms, receipt)

    def vote(self, vote: Vote, at_ms: int) -> None:
        """Stores the vote, and with it the charge of the run's next step: the disk is waited for once.

        The next offer of this process uses that charge, in whatever session. If the process ends before, the
        charge counts all the same.
        """
        if not vote.goes_on or self._is_paid or not self._left:
            self._state.bind(vote.vote)
            return
        open_vote = vote.vote
        name = hashlib.sha256(_AHEAD + open_vote.sid).digest()  # the next session's id is not known yet
        charge = Charge(name, self._round + 1, at_ms, self._mechanism.per_offer)
        self._state.bind(open_vote, charge)
        self._left, self._is_paid = self._left - 1, True

    def following(self, before: Base, vector: Floats, proof: Completed | Healed) -> Following:
        """Takes the step that all members take."""
        step = before.generation + 1
        return Following(self._trainer.following(vector, step, proof.result), ())
