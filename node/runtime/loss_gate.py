r"""The loss gate: a base that does badly on the owner's rows is not trained on, and the way back is offered.

base --judge--> good: trained on, as without a gate
            \--> refused: training starts from the last good base, and an offer is
                 fresh + (last good base - base)

What was agreed stays agreed. If all members of a group refuse a base, their mean leads back to the last good
one and has what they learned in it; if some do, it leads back as far as their share of the group.

The rows are the training rows: of a part of common data the test rows are nobody's own, and of one's own
data the validation rows would no longer tell the accuracy once they choose the model. That the rows were
trained on matters little, as what is compared are common models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from mechanisms.loss_gate import LossGate, covers_a_gate
from mechanisms.mechanism import Mechanism
from node.errors import ConfigError
from node.storage.state import State
from node.task.sections import Task
from node.training.trainer import Learner


@dataclass(frozen=True)
class Refused:
    """A base was refused: its loss on one's own rows, and the lowest of the good bases before it."""

    generation: int
    lowest_loss: float
    loss: float

    @property
    def losses(self) -> tuple[float | None, float | None]:
        """The lowest and the base's, to be written down; None for one that is not finite."""
        lowest, loss = (
            round(value, 6) if math.isfinite(value) else None for value in (self.lowest_loss, self.loss)
        )
        return lowest, loss

    @property
    def text(self) -> str:
        """In a line."""
        return (
            f"rolled back: loss on own rows {self.lowest_loss:.4g} -> {self.loss:.4g} with the base of "
            f"generation {self.generation}; training goes on from the last good one"
        )


class NodeLossGate(Protocol):
    """Who judges a base before it is trained on."""

    def judge(self) -> Refused | None:
        """Judge the base if that has not been done; what is to be said if it is refused."""


class NoLossGate:
    """Takes every base, as a node without a gate does."""

    def judge(self) -> Refused | None:
        """Nothing."""
        return None


class RowsLossGate:
    """Judges by the mean loss on the trainer's rows. One call at a time.

    The lowest loss is remembered while the node runs; after a restart it begins with the last good base's.
    """

    def __init__(self, tolerance: float, trainer: Learner, state: State) -> None:
        self._trainer = trainer
        self._state = state
        self._loss_gate = LossGate(tolerance)
        self._begun = False

    def judge(self) -> Refused | None:
        """See NodeLossGate.judge. A base that is taken over meanwhile is judged as well."""
        self._begin()
        refused = None
        while (waiting := self._state.unjudged) is not None:
            base, vector = waiting
            loss = self._trainer.own_loss(vector)
            good = self._loss_gate.accepts(loss)
            if not self._state.judge(base, good):
                continue
            refused = None if good else Refused(base.generation, self._loss_gate.lowest_loss, loss)
            if good:
                self._loss_gate = self._loss_gate.after(loss)
        return refused

    def _begin(self) -> None:
        """Know the loss of the last good base, where there is one."""
        last_good = None if self._begun else self._state.last_good
        if last_good is not None:
            self._loss_gate = self._loss_gate.after(self._trainer.own_loss(last_good))
        self._begun = True


def make_loss_gate(task: Task, trainer: Learner, state: State) -> NodeLossGate:
    """The gate of `aggregation.loss_gate`; where there is none, what one said before is forgotten."""
    if task.aggregation.loss_gate is None:
        state.without_gate()
        return NoLossGate()
    return RowsLossGate(task.aggregation.loss_gate, trainer, state)


def check_loss_gate(task: Task, mechanism: Mechanism) -> None:
    """ConfigError where what the mechanism promises would not be true beside the gate."""
    if task.aggregation.loss_gate is not None and not covers_a_gate(mechanism):
        raise ConfigError(
            f"aggregation.loss_gate = {task.aggregation.loss_gate:g} is refused with privacy.mechanism = "
            f"{task.privacy.mechanism!r}: that you refuse a base depends on your records, and shows in "
            "what you offer, which its noise does not cover; leave the gate out, or use 'ldp' or 'aldp'"
        )


def loss_gate_words(task: Task) -> dict[str, str]:
    """What the owner reads at the start; nothing where there is no gate."""
    if task.aggregation.loss_gate is None:
        return {}
    return {
        "loss gate": f"a base whose loss on your own rows is more than {task.aggregation.loss_gate:g} above "
        "the lowest so far is not trained on; that you refuse one shows in what you offer"
    }
