"""A gate before a new common model: its owner's rows say whether it is taken for good.

Of a secure sum nobody sees the parts, so a member can only judge what came out: by the mean loss on rows of
its own. A model is good as long as its loss there is at most `tolerance` above the lowest that any good model
before it had. Measured from the lowest, and not from the last, as a lie that stays within the tolerance each
time would carry the model away step by step otherwise.

What it can not do: tell a lie that leaves these rows right, such as a backdoor, from learning; or tell apart
rows that are unlike the others' from a lie (then a tolerance is too small: honest models are refused).

What it leaks: the decision is one bit a round that depends on all the owner's rows, and whoever acts on it
shows it. Noise on the whole of an offer (`ldp`, `aldp`) covers what is offered because of it, as the offer is
clipped and noised whatever the update depends on. Noise in the gradient steps alone (`dp-sgd`, unit: one
record) does not: a mean loss over rows that are not clipped has no bounded sensitivity, and no epsilon is
true of the two together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mechanisms.arguments import positive
from mechanisms.mechanism import Mechanism


@dataclass(frozen=True, slots=True)
class LossGate:
    """`tolerance`: in units of the loss (nats for classes); `lowest_loss`: of the good models so far.

    A `lowest_loss` that is not finite stands for none: the first model of finite loss is good.
    """

    tolerance: float
    lowest_loss: float = math.inf

    def __post_init__(self) -> None:
        positive("tolerance", self.tolerance)

    def accepts(self, loss: float) -> bool:
        """Whether a model with this mean loss on the owner's rows is good; never where it is not finite."""
        most = self.lowest_loss + self.tolerance if math.isfinite(self.lowest_loss) else math.inf
        return math.isfinite(loss) and loss <= most

    def after(self, loss: float) -> LossGate:
        """The gate once a model with this loss was taken for good."""
        return replace(self, lowest_loss=loss if loss < self.lowest_loss else self.lowest_loss)


def covers_a_gate(mechanism: Mechanism) -> bool:
    """Whether what `mechanism` promises is true beside a gate: it promises nothing, or bounds whole offers.

    One that makes private gradient steps bounds what training tells, and takes it that nothing else does.
    """
    return mechanism.guarantee is None or mechanism.gradient is None
