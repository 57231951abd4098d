"""What a node contributes to the sums of its groups, and what a sum makes of the model.

The engine (node.runtime.engine) has one contribution and asks it in this order:

    prepare ──▶ offer ──▶ spend ──▶ vote ──▶ following
    trains      a vector  stored    stored   the next base, from the group's base and the sum

It calls `spend` before the first byte that depends on the offer leaves, and `vote` before the first byte that
opens the sum, in the sessions whose results bind. After a failed sum it calls `following` only if a
certificate proves the result later.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Protocol

from mechanisms.mechanism import Memory
from node.storage.records import SwarmFigure
from node.storage.vector_files import Floats
from protocol.actions import Completed, Healed, Spend, Vote
from protocol.vectors.pieces import Vector
from protocol.wire.messages import Base


@dataclass(frozen=True)
class Training:
    """What a node prepared. The loss is None if it did not train."""

    loss: float | None
    seconds: float
    offered: bool
    """Whether the node has an offer that the privacy budget still allows."""
    not_finite: int = 0
    """How often a row counted as zero because its gradient was not finite; for the owner alone."""
    warning: str = ""
    """What the owner, and nobody else, is to know about it; "" for nothing."""
    made_for: Base | None = None
    """The base for which the offer is; None: any."""


NO_TRAINING = Training(None, 0.0, False)
"""The value for a round without training."""


@dataclass(frozen=True)
class Following:
    """A new base's vector, as long as the one before, and the mechanism's memory with it.

    `swarm`: a metric of all members' rows for the base before, if the sum had one.
    """

    vector: Floats
    memory: Memory
    swarm: SwarmFigure | None = None


class Contribution(Protocol):
    """A node's part in its groups' sums."""

    def prepare(self, own: int, stop: threading.Event) -> Training:
        """Prepares an offer for this node's own round `own`, if the privacy budget allows one; in a thread.

        Raises Interrupted soon after `stop` is set, or a UserError.
        """

    def offer(self) -> Vector:
        """Makes the vector that a session sums. Runs in a thread."""

    def spend(self, spend: Spend, at_ms: int) -> None:
        """Stores that the offer is spent, and its charge; on disk when this returns. `at_ms`: Unix time."""

    def vote(self, vote: Vote, at_ms: int) -> None:
        """Stores a vote, on disk when this returns; steps store the next step's charge, too."""

    def following(self, before: Base, vector: Floats, proof: Completed | Healed) -> Following | None:
        """Returns the base that the result in `proof` makes of `before`, whose vector is `vector`.

        None if honest members cannot have such a result: then the base stays. May overwrite the result.
        """

    def is_over(self, vector: Floats) -> bool:
        """Returns whether the run ends with the base (d,), however many sums it might have."""
