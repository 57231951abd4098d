"""Contributions of single steps: one sum is one step, whose noise all members share.

    base ──▶ a sample's gradient, this node's share of the noise ──▶ words ──▶ base' = the step from the sum

There is no progress of one's own: a sum that fails costs its charge and leaves the model alone, and the next
offer has a new sample and new noise.
"""

from __future__ import annotations

import threading

from mechanisms.updates.distributed import DistributedDP
from node.errors import UserError
from node.runtime.contribution import Following, Training
from node.runtime.privacy_budget import affordable_steps
from node.storage.records import Receipt
from node.storage.state import State
from node.storage.vector_files import Floats
from node.training.step_trainer import Contributed, StepTrainer
from protocol.actions import Completed, Healed, Spend
from protocol.vectors.pieces import Vector
from protocol.wire.messages import Base


class Steps:
    """A node's part in the steps of its swarm."""

    def __init__(self, state: State, trainer: StepTrainer, mechanism: DistributedDP) -> None:
        self._state = state
        self._trainer = trainer
        self._mechanism = mechanism
        self._waiting: Contributed | None = None
        self._left: int | None = None
        """How many more steps the budget allows; None until the first one, as it takes a while to compute."""

    def prepare(self, number: int, stop: threading.Event) -> Training:
        """Computes the words of the next step, if the privacy budget allows its charge."""
        self._waiting = None
        if self._left is None:
            self._left = affordable_steps(self._mechanism, self._state.ledger)
        if self._left == 0:
            return Training(None, 0.0, False)
        self._waiting = made = self._trainer.contribution(self._state.base_vector)
        return Training(made.loss, made.seconds, True, made.not_finite)

    def offer(self) -> Vector:
        """Returns the words that were computed last."""
        if self._waiting is None:
            raise UserError("there is nothing to offer")
        return self._waiting.words

    def spend(self, spend: Spend, at_ms: int) -> None:
        """Charges the step."""
        receipt = Receipt(self._mechanism.per_offer, (), None)
        self._left = None if self._left is None else self._left - 1
        self._state.charge(spend.sid, spend.round, at_ms, receipt)

    def following(self, before: Base, vector: Floats, proof: Completed | Healed) -> Following:
        """Takes the step that all members take."""
        step = before.generation + 1
        return Following(self._trainer.following(vector, step, proof.result), ())
