"""The interface of a mechanism, which protects a node's data from what others see, and what it costs.

A mechanism acts at three points: on the gradient step (`gradient`), on the update before it leaves (`offer`),
and after an aggregate that every member learns (`aggregated`). Its costs are events that are known in
advance, so a node knows what it can still afford. A mechanism is immutable; the node stores its memory from
one offer to the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Event, Unit
from mechanisms.arguments import count, positive, probability, share
from mechanisms.noise.randomness import Words

if TYPE_CHECKING:  # the import loads torch, which takes seconds and which a tracker does not need
    from mechanisms.gradients.dp_sgd import GradientRule

Floats = NDArray[np.float32]
Memory = tuple[tuple[float, ...], ...]
"""A mechanism's memory: one row per tensor, or one row. It may depend on private data and never leaves."""


@dataclass(frozen=True, slots=True)
class SharedSetting:
    """What the members of a swarm agree on if they share the noise of single steps.

    `honest`: how many other members each member takes to be honest. `sampling_probability`: that a step uses
    a given row. `expected_batch`: the mean number of rows of all members in a step. `steps`: of the whole
    run. `members`: of the largest group.
    """

    honest: int
    sampling_probability: float
    expected_batch: float
    steps: int
    members: int

    def __post_init__(self) -> None:
        share("sampling_probability", self.sampling_probability)
        positive("expected_batch", self.expected_batch)
        for name in ("honest", "steps", "members"):
            count(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class CountPlan:
    """Noised counts (mechanisms.noised_counts): `releases` that by themselves cost `share` of epsilon."""

    share: float
    releases: int

    def __post_init__(self) -> None:
        share("share", self.share)
        count("releases", self.releases)


@dataclass(frozen=True, slots=True)
class Setting:
    """The parameters of a mechanism: the keys of `[privacy]`, and the work that they cover.

    `epsilon` and `delta` are totals over `rounds` offers. `sizes`: the number of parameters of each tensor.
    `rows`: the number of this node's training rows, or persons; it counts as public. `rows_per_person`: the
    most rows of a person, if a person is the unit of privacy; None if a row is. `shared`: what members with
    shared noise agree on; None: each adds its own. `counts`: what the node releases beside training; None:
    nothing. `cells`: what members with shared noise release before their first step; None: nothing.
    `epochs`: the passes over the rows in a round; None: as many as its time allows.
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
    epochs: int | None
    shared: SharedSetting | None = None
    counts: CountPlan | None = None
    rows_per_person: int | None = None
    cells: CountPlan | None = None

    def __post_init__(self) -> None:
        for name in ("epsilon", "clipping_radius"):
            positive(name, getattr(self, name))
        probability("delta", self.delta)
        for name in ("window", "rounds", "rows", "batch_size"):
            count(name, getattr(self, name))
        if self.epochs is not None:
            count("epochs", self.epochs)
        if not self.sizes or min(self.sizes) < 1:
            raise ValueError(f"sizes = {self.sizes} is not allowed: the sizes of one or more tensors")

    @property
    def steps(self) -> int:
        """The number of gradient steps in a round. Raises ValueError without `epochs`."""
        if self.epochs is None:
            raise ValueError(
                "it needs the number of steps of a round, which train.seconds leaves open; set train.epochs"
            )
        return self.epochs * math.ceil(self.rows / self.batch_size)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The guarantee of a run: the total (epsilon, delta) that is proved, its unit, and what is not covered.

    `stated`: the epsilon that was asked for; it differs from `epsilon` only in replays of other systems.
    `outside`: a phrase for what epsilon does not cover, "" if it covers everything.
    """

    unit: Unit
    epsilon: float
    delta: float
    stated: float
    outside: str = ""
    honest: int | None = None
    """How many other members must be honest for it to hold, as they share the noise; None: it needs none."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A `vector` (d,) float32 that may leave, the memory after it, its clipping radius and its noise std."""

    vector: Floats
    memory: Memory = ()
    radius: float | None = None
    noise_std: float | None = None


class Protection(Protocol):
    """What every mechanism, with or without a server, says of itself."""

    @property
    def name(self) -> str:
        """The name in task files and results."""

    @property
    def protects(self) -> str:
        """One sentence: what the mechanism reveals and what it does not, and to whom."""

    @property
    def guarantee(self) -> Guarantee | None:
        """The guarantee of the whole run; None if there is none."""


class Mechanism(Protection, Protocol):
    """Turns progress into offers. A task names its maker, which takes a `Setting`.

    The maker raises ValueError or TypeError for a setting that it refuses.
    """

    @property
    def bound(self) -> float:
        """A bound that an offer's coordinates almost never exceed (8 sigma), from public values; 0: none."""

    @property
    def gradient(self) -> GradientRule | None:
        """The rule for private gradient steps; None for ordinary steps."""

    @property
    def per_training(self) -> tuple[Event, ...]:
        """The cost of a round's training; the node charges it once it offers any of the result."""

    @property
    def per_offer(self) -> tuple[Event, ...]:
        """The cost of an offer, beside that of the training that it contains."""

    def offer(self, fresh: Floats, memory: Memory, words: Words) -> Offer:
        """Makes an offer from `fresh` (d,) float32, the progress not offered so far, without changing it."""

    def aggregated(self, mean: Floats, members: int, memory: Memory) -> Memory:
        """The memory after an aggregate: the `mean` (d,) of `members` offers, which all members know."""


def covers_offers(mechanism: Mechanism) -> bool:
    """Returns whether `mechanism` noises whole offers, so that its guarantee covers all that they depend on.

    A mechanism with private gradient steps covers the training alone: nothing else may use the rows.
    """
    return mechanism.guarantee is not None and mechanism.gradient is None


class Quiet:
    """The defaults of most mechanisms: no noise in training, no cost, no memory."""

    __slots__ = ()

    @property
    def gradient(self) -> GradientRule | None:
        """None: ordinary steps."""
        return None

    @property
    def bound(self) -> float:
        """0: no bound is known."""
        return 0.0

    @property
    def per_training(self) -> tuple[Event, ...]:
        """No cost."""
        return ()

    @property
    def per_offer(self) -> tuple[Event, ...]:
        """No cost."""
        return ()

    def offer(self, fresh: Floats, memory: Memory, words: Words) -> Offer:
        """Offers `fresh` unchanged."""
        return Offer(fresh, memory)

    def aggregated(self, mean: Floats, members: int, memory: Memory) -> Memory:
        """Returns `memory` unchanged."""
        return memory


class Unprotected(Quiet):
    """`privacy.mechanism = "none"`: offers the update unchanged; only the secure sum hides it."""

    __slots__ = ()

    name = "none"
    guarantee: Guarantee | None = None
    protects = "secure aggregation hides your update in the sum; the sum itself has no noise"
