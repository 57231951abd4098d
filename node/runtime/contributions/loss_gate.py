r"""The loss gate: the node does not train on a base with a high loss on its rows, and offers the way back.

base --judge--> good: trained on, as without a gate
            \--> refused: training starts from the last good base, and an offer is
                 fresh + (last good base - base)

The agreed base stays agreed. If all members of a group refuse a base, their mean leads back to the last good
one and contains what they learned; if only some do, it leads back in proportion to their share of the group.

The gate uses the training rows. If the data is a shard of common data, the test rows belong to no owner; if
it is the owner's, validation rows that choose the model would no longer measure its accuracy. That the node
trained on these rows matters little, because the gate compares common models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from mechanisms.loss_gate import LossGate, covers_a_gate
from mechanisms.mechanism import Mechanism
from node.storage.state import State
from node.system.errors import ConfigError
from node.task.sections import Task
from node.training.trainer import VectorModel


@dataclass(frozen=True)
class Refused:
    """A refused base: its loss on the owner's rows, and the lowest loss of the good bases before it."""

    generation: int
    lowest_loss: float
    loss: float

    @property
    def losses(self) -> tuple[float | None, float | None]:
        """The lowest loss and the base's, rounded for the history; None for one that is not finite."""
        lowest, loss = (
            round(value, 6) if math.isfinite(value) else None for value in (self.lowest_loss, self.loss)
        )
        return lowest, loss

    @property
    def text(self) -> str:
        """The refusal in one line."""
        return (
            f"rolled back: loss on own rows {self.lowest_loss:.4g} -> {self.loss:.4g} with the base of "
            f"generation {self.generation}; training goes on from the last good one"
        )


class NodeLossGate(Protocol):
    """Judges a base before the node trains on it."""

    def check_base(self) -> Refused | None:
        """Judges the base unless that was done; returns the refusal, or None."""


class NoLossGate:
    """Accepts every base, as a node without a gate does."""

    def check_base(self) -> Refused | None:
        """Returns None."""
        return None


class RowsLossGate:
    """Judges a base by its mean loss on the trainer's rows. It allows one call at a time.

    It remembers the lowest loss while the node runs; a restart begins with the last good base's loss.
    """

    def __init__(self, tolerance: float, trainer: VectorModel, state: State) -> None:
        self._trainer = trainer
        self._state = state
        self._loss_gate = LossGate(tolerance)
        self._begun = False

    def check_base(self) -> Refused | None:
        """See NodeLossGate.check_base. It also judges a base that the node adopts meanwhile."""
        self._begin()
        refused = None
        while (waiting := self._state.unchecked) is not None:
            base, vector = waiting
            loss = self._trainer.own_loss(vector)
            good = self._loss_gate.accepts(loss)
            if not self._state.set_accepted(base, good):
                continue
            refused = None if good else Refused(base.generation, self._loss_gate.lowest_loss, loss)
            if good:
                self._loss_gate = self._loss_gate.after(loss)
        return refused

    def _begin(self) -> None:
        """Evaluates the loss of the last good base once, if there is one."""
        last_good = None if self._begun else self._state.last_good
        if last_good is not None:
            self._loss_gate = self._loss_gate.after(self._trainer.own_loss(last_good))
        self._begun = True


def make_loss_gate(task: Task, trainer: VectorModel, state: State) -> NodeLossGate:
    """Returns the gate of `aggregation.loss_gate`; without one, the state forgets earlier judgements."""
    if task.aggregation.loss_gate is None:
        state.without_gate()
        return NoLossGate()
    return RowsLossGate(task.aggregation.loss_gate, trainer, state)


def check_loss_gate(task: Task, mechanism: Mechanism) -> None:
    """Raises ConfigError if the mechanism's guarantee would not hold beside the gate."""
    if task.aggregation.loss_gate is not None and not covers_a_gate(mechanism):
        raise ConfigError(
            f"aggregation.loss_gate = {task.aggregation.loss_gate:g} is refused with privacy.mechanism = "
            f"{task.privacy.mechanism!r}: that you refuse a base depends on your records, and shows in "
            "what you offer, which its noise does not cover; leave the gate out, or use 'ldp' or 'aldp'"
        )


def loss_gate_words(task: Task) -> dict[str, str]:
    """Returns the start-up line about the gate; empty without a gate."""
    if task.aggregation.loss_gate is None:
        return {}
    return {
        "loss gate": f"a base whose loss on your own rows is more than {task.aggregation.loss_gate:g} above "
        "the lowest so far is not trained on; that you refuse one shows in what you offer"
    }
