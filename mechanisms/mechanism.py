"""What a mechanism is: where it stands between a node's data and what others may see, and what that costs.

Three places: the gradient step (`gradient`), the update before it leaves (`offer`), and what every member
learns from an aggregate (`aggregated`). Costs are events, constant and known before anything is done, so
that a node can tell what it can still afford. What a mechanism remembers from offer to offer is a value
that the node stores together with the spent offer: a mechanism itself never changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Event, Unit
from mechanisms.arguments import count, positive, probability
from mechanisms.noise.randomness import Words

if TYPE_CHECKING:  # it loads torch: seconds, and a tracker has no use for it
    from mechanisms.gradients.dp_sgd import GradientRule

Floats = NDArray[np.float32]
Memory = tuple[tuple[float, ...], ...]
"""What is remembered, one row a tensor (or one in all). It may follow private data: it never leaves."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a mechanism is made for: the keys of `[privacy]`, and the work they are to cover.

    `epsilon` and `delta` are totals over `rounds` offers. `sizes` are the numbers of parameters of each
    tensor. `rows` is the number of this node's training rows, which is treated as public.
    """

    epsilon: float
    delta: float
    clipping_radius: float
    window: int
    window_source: str
    calibration: str
    rounds: int
    sizes: tuple[int, ...]
    rows: int
    batch_size: int
    epochs: int

    def __post_init__(self) -> None:
        for name in ("epsilon", "clipping_radius"):
            positive(name, getattr(self, name))
        probability("delta", self.delta)
        for name in ("window", "rounds", "rows", "batch_size", "epochs"):
            count(name, getattr(self, name))
        if not self.sizes or min(self.sizes) < 1:
            raise ValueError(f"sizes = {self.sizes} is not allowed: the sizes of one or more tensors")

    @property
    def steps(self) -> int:
        """Gradient steps in a round."""
        return self.epochs * math.ceil(self.rows / self.batch_size)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a run promises: a true (epsilon, delta) in all, for whom, and what it leaves out.

    `stated` is the epsilon that was asked for; it differs from `epsilon` only where a faulty calibration is
    replayed. `outside` is a sentence about what epsilon does not cover, "" where there is nothing.
    """

    unit: Unit
    epsilon: float
    delta: float
    stated: float
    outside: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """A vector (d,) float32 that may leave, the memory once it has left, and how it was made."""

    vector: Floats
    memory: Memory = ()
    radius: float | None = None
    noise_std: float | None = None


class Protection(Protocol):
    """What every mechanism says of itself, with a server or without one."""

    @property
    def name(self) -> str:
        """As task files and results name it."""

    @property
    def protects(self) -> str:
        """In a sentence, what is given away and what is not, and to whom."""

    @property
    def guarantee(self) -> Guarantee | None:
        """What the whole run promises; None where nothing is."""


class Mechanism(Protection, Protocol):
    """From data to offers. Made by a call with a `Setting`; TypeError or ValueError for what can not be."""

    @property
    def bound(self) -> float:
        """What hardly a coordinate of an offer exceeds (8 sigma), from public values; 0: not known."""

    @property
    def gradient(self) -> GradientRule | None:
        """How private gradient steps are made; None for ordinary ones."""

    @property
    def per_training(self) -> tuple[Event, ...]:
        """What a round's training costs, once something of it is offered."""

    @property
    def per_offer(self) -> tuple[Event, ...]:
        """What an offer costs beside the training that is in it."""

    def offer(self, fresh: Floats, memory: Memory, words: Words) -> Offer:
        """What may leave of `fresh` (d,) float32, the progress that was never offered; it is not changed."""

    def aggregated(self, mean: Floats, members: int, memory: Memory) -> Memory:
        """The memory after an aggregate: the `mean` (d,) of `members` offers, which all of them know."""


class Quiet:
    """What most mechanisms leave as it is: no noise in training, no cost, nothing remembered."""

    __slots__ = ()

    @property
    def gradient(self) -> GradientRule | None:
        """Ordinary steps."""
        return None

    @property
    def bound(self) -> float:
        """Not known."""
        return 0.0

    @property
    def per_training(self) -> tuple[Event, ...]:
        """Nothing."""
        return ()

    @property
    def per_offer(self) -> tuple[Event, ...]:
        """Nothing."""
        return ()

    def offer(self, fresh: Floats, memory: Memory, words: Words) -> Offer:
        """`fresh` as it is."""
        return Offer(fresh, memory)

    def aggregated(self, mean: Floats, members: int, memory: Memory) -> Memory:
        """Nothing is learned from it."""
        return memory


class Unprotected(Quiet):
    """`privacy.mechanism = "none"`: the update as it is. Only the secure sum hides it among the others."""

    __slots__ = ()

    name = "none"
    guarantee: Guarantee | None = None
    protects = "secure aggregation hides your update in the sum; the sum itself has no noise"
