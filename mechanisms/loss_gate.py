"""The loss gate: a node accepts a new common model only if the loss on its own rows is low enough.

Nobody sees the parts of a secure sum, so a member can judge only the result, by the mean loss on its own
rows. It accepts a model whose loss is at most `tolerance` above the lowest loss of any model accepted before.
The reference is the lowest loss, not the last one: otherwise a series of lies, each within the tolerance,
could move the model away step by step.

Limits: the gate does not detect a lie that leaves the loss on these rows low, such as a backdoor. If the
owner's rows are unlike the others', honest models look like lies: the gate refuses them unless the tolerance
is larger.

Leakage: the decision is one bit per round that depends on all the owner's rows, and a node that acts on it
reveals it. Noise on the whole offer (`ldp`, `aldp`) covers this: it bounds what an offer reveals, whatever
the update depends on. Noise in the gradient steps alone (`dp-sgd`, unit: one record) does not cover it: the
mean loss of unclipped rows has no bounded sensitivity, so no epsilon holds for steps and decision together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mechanisms.arguments import positive
from mechanisms.mechanism import Mechanism, covers_offers


@dataclass(frozen=True, slots=True)
class LossGate:
    """`tolerance`: in units of the loss (nats for classes); `lowest_loss`: of the models accepted so far.

    An infinite `lowest_loss` means none so far: the gate accepts the first model with a finite loss.
    """

    tolerance: float
    lowest_loss: float = math.inf

    def __post_init__(self) -> None:
        positive("tolerance", self.tolerance)

    def accepts(self, loss: float) -> bool:
        """Returns whether the gate accepts a model with this mean loss; False if it is not finite."""
        return math.isfinite(loss) and loss <= self.lowest_loss + self.tolerance

    def after(self, loss: float) -> LossGate:
        """Returns the gate after it accepted a model with this loss."""
        return replace(self, lowest_loss=min(self.lowest_loss, loss))


def covers_a_gate(mechanism: Mechanism) -> bool:
    """Returns whether a gate leaves `mechanism`'s guarantee true: it has none, or it covers whole offers."""
    return mechanism.guarantee is None or covers_offers(mechanism)
