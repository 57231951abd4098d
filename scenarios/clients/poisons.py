"""Attacks of dishonest clients: on their rows before they train, on their updates before they send them.

Poisoned rows are within the threat model of data poisoning: the client trains as the protocol says. Forged
updates are not: the client sends any update. All attacks are pure functions of arrays and leave their
arguments unchanged; the scenario decides who attacks, and how many.

`Poison` and `Forgery` are these functions as values, the parts of a federated cell. An attacker's update
still passes through the mechanism's own upload, clipping included, as a server can check that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.arguments import at_least_zero, positive, share

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]


# -- rows --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trigger:
    """A backdoor: the model is to classify rows with the trigger as class `target`.

    values: from positions in a flattened row to the values that the trigger sets. A row with all these values
    has the trigger (Gu et al. 2017, "BadNets", section 3, for pixels; for tables rare values of few columns).
    """

    values: Mapping[int, float]
    target: int

    def put_on(self, x: Floats) -> Floats:
        """Return the rows `x` (n, ...), all with the trigger."""
        flat = np.array(x).reshape(len(x), -1)
        places = np.array(sorted(self.values), np.int64)
        if not len(places) or places[0] < 0 or places[-1] >= flat.shape[1]:
            raise ValueError(
                f"values at {places.tolist()} are not allowed: one or more from 0 to {flat.shape[1] - 1}"
            )
        flat[:, places] = [self.values[place] for place in places]
        return flat.reshape(x.shape)

    def success(self, predicted: Labels, y: Labels) -> float:
        """The share `predicted` (n,) as `target` of rows with the trigger and another label y (n,)."""
        others = y != self.target
        return float((predicted[others] == self.target).mean()) if others.any() else 0.0


# -- updates -----------------------------------------------------------------------------------------------


def scaled(weights: Floats, start: Floats, factor: float) -> Floats:
    """Return `start` (d,) plus `factor` times the update from it to `weights` (d,).

    If the factor is the number of clients, this is model replacement (Bagdasaryan et al. 2020, (3)).
    """
    return _single(start + positive("factor", factor) * (weights.astype(np.float64) - start))


def sign_flipped(weights: Floats, start: Floats, factor: float) -> Floats:
    """Return `start` (d,) minus `factor` times the update from it to `weights` (d,)."""
    return _single(start - positive("factor", factor) * (weights.astype(np.float64) - start))


# -- parts -------------------------------------------------------------------------------------------------


def _single(vector: NDArray[np.floating]) -> Floats:
    return vector.astype(np.float32)


class Poison(Protocol):
    """An attack on the attacker's own rows."""

    def rows(self, x: Floats, y: Labels, rng: np.random.Generator) -> tuple[Floats, Labels]:
        """Return the rows (n, ...) and labels (n,) that the attacker trains on instead of x and y."""


class Forgery(Protocol):
    """An attack with a forged update."""

    def weights(self, weights: Floats, start: Floats, rng: np.random.Generator) -> Floats:
        """Return the weights (d,) sent instead of `weights` (d,), which were trained from `start` (d,)."""


@dataclass(frozen=True)
class LabelFlip:
    """Every label c becomes classes - 1 - c."""

    classes: int
    name: str = "label flip"

    def rows(self, x: Floats, y: Labels, rng: np.random.Generator) -> tuple[Floats, Labels]:
        """See Poison. Raises ValueError for a label that is not in 0..classes-1."""
        if len(y) and not 0 <= y.min() <= y.max() < self.classes:
            raise ValueError(f"y holds {y.min()} to {y.max()}; allowed: 0 to {self.classes - 1}")
        return x, self.classes - 1 - y


@dataclass(frozen=True)
class Backdoor:
    """A random share `poisoned` of the rows has the trigger and its target."""

    trigger: Trigger
    poisoned: float
    name: str = "backdoor"

    def rows(self, x: Floats, y: Labels, rng: np.random.Generator) -> tuple[Floats, Labels]:
        """See Poison."""
        chosen = rng.permutation(len(y))[: round(share("poisoned", self.poisoned) * len(y))]
        own_x, own_y = np.array(x), np.array(y)
        own_x[chosen] = self.trigger.put_on(x[chosen])
        own_y[chosen] = self.trigger.target
        return own_x, own_y


@dataclass(frozen=True)
class Scaling:
    """The update, times `factor`."""

    factor: float
    name: str = "scaling"

    def weights(self, weights: Floats, start: Floats, rng: np.random.Generator) -> Floats:
        """See Forgery."""
        return scaled(weights, start, self.factor)


@dataclass(frozen=True)
class SignFlip:
    """The negated update, times `factor`."""

    factor: float
    name: str = "sign flip"

    def weights(self, weights: Floats, start: Floats, rng: np.random.Generator) -> Floats:
        """See Forgery."""
        return sign_flipped(weights, start, self.factor)


@dataclass(frozen=True)
class FreeRide:
    """The received model with noise of this standard deviation, as a disguise (Fraboni et al. 2021)."""

    noise_std: float
    name: str = "free ride"

    def weights(self, weights: Floats, start: Floats, rng: np.random.Generator) -> Floats:
        """See Forgery."""
        return _single(start + rng.normal(0, at_least_zero("noise_std", self.noise_std), len(start)))


@dataclass(frozen=True)
class Attackers:
    """A share `of` the clients, drawn from the seed. They poison rows, forge weights, or both."""

    of: float = 0.0
    poison: Poison | None = None
    forgery: Forgery | None = None

    def __post_init__(self) -> None:
        if not 0 <= at_least_zero("of", self.of) <= 1:
            raise ValueError(f"of = {self.of!r} is not allowed: a share from 0 to 1")

    def among(self, clients: int, rng: np.random.Generator) -> frozenset[int]:
        """The numbers of the attackers: round(of * clients) of them."""
        return frozenset(rng.permutation(clients)[: round(self.of * clients)].tolist())

    def poisoned(self, x: Floats, y: Labels, rng: np.random.Generator) -> tuple[Floats, Labels]:
        """The rows (n, ...) and labels (n,) that an attacker trains on instead of x and y."""
        return (x, y) if self.poison is None else self.poison.rows(x, y, rng)

    def forged(self, weights: Floats, start: Floats, rng: np.random.Generator) -> Floats:
        """The weights (d,) that an attacker sends instead of `weights` (d,), trained from `start` (d,)."""
        return weights if self.forgery is None else self.forgery.weights(weights, start, rng)


NOBODY = Attackers()
