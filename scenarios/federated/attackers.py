"""Who among a server's clients is dishonest, and what these do: values that a federated cell is made of.

Poisons change an attacker's rows, once, before it trains by the book. Forgeries change what it has trained,
every round; what leaves still goes through the mechanism's own upload, clipping included, as a server can
check that much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mechanisms.arguments import at_least_zero
from scenarios.federated.poisons import (
    Floats,
    Labels,
    Trigger,
    backdoored,
    flipped_labels,
    free_ridden,
    scaled,
    sign_flipped,
)


class Poison(Protocol):
    """What an attacker does to its rows."""

    def rows(self, x: Floats, y: Labels, rng: np.random.Generator) -> tuple[Floats, Labels]:
        """Rows x (n, ...) and labels y (n,) to train on instead."""


class Forgery(Protocol):
    """What an attacker does to its trained weights."""

    def weights(self, weights: Floats, start: Floats, rng: np.random.Generator) -> Floats:
        """(d,) instead of `weights` (d,), which were trained from `start` (d,)."""


@dataclass(frozen=True)
class LabelFlip:
    """Every label c becomes classes - 1 - c."""

    classes: int
    name: str = "label flip"

    def rows(self, x: Floats, y: Labels, rng: np.random.Generator) -> tuple[Floats, Labels]:
        """See Poison."""
        return x, flipped_labels(y, self.classes)


@dataclass(frozen=True)
class Backdoor:
    """A share `poisoned` of the rows bear the trigger and its target."""

    trigger: Trigger
    poisoned: float
    name: str = "backdoor"

    def rows(self, x: Floats, y: Labels, rng: np.random.Generator) -> tuple[Floats, Labels]:
        """See Poison."""
        return backdoored(x, y, self.trigger, self.poisoned, rng)


@dataclass(frozen=True)
class Scaling:
    """The update `factor` times."""

    factor: float
    name: str = "scaling"

    def weights(self, weights: Floats, start: Floats, rng: np.random.Generator) -> Floats:
        """See Forgery."""
        return scaled(weights, start, self.factor)


@dataclass(frozen=True)
class SignFlip:
    """The update turned round, `factor` times."""

    factor: float
    name: str = "sign flip"

    def weights(self, weights: Floats, start: Floats, rng: np.random.Generator) -> Floats:
        """See Forgery."""
        return sign_flipped(weights, start, self.factor)


@dataclass(frozen=True)
class FreeRide:
    """What was received, with noise of `noise_std` for disguise."""

    noise_std: float
    name: str = "free ride"

    def weights(self, weights: Floats, start: Floats, rng: np.random.Generator) -> Floats:
        """See Forgery."""
        return free_ridden(start, self.noise_std, rng)


@dataclass(frozen=True)
class Attackers:
    """A share `of` the clients, drawn under the seed: they poison rows, forge weights, or both."""

    of: float = 0.0
    poison: Poison | None = None
    forgery: Forgery | None = None

    def __post_init__(self) -> None:
        if not 0 <= at_least_zero("of", self.of) <= 1:
            raise ValueError(f"of = {self.of!r} is not allowed: a share from 0 to 1")

    def among(self, clients: int, rng: np.random.Generator) -> frozenset[int]:
        """Their numbers: round(of * clients) of them."""
        return frozenset(rng.permutation(clients)[: round(self.of * clients)].tolist())

    def poisoned(self, x: Floats, y: Labels, rng: np.random.Generator) -> tuple[Floats, Labels]:
        """What one of them trains on."""
        return (x, y) if self.poison is None else self.poison.rows(x, y, rng)

    def forged(self, weights: Floats, start: Floats, rng: np.random.Generator) -> Floats:
        """What one of them says that it trained."""
        return weights if self.forgery is None else self.forgery.weights(weights, start, rng)


NOBODY = Attackers()
