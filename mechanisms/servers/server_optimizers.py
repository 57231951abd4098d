"""Server optimisers, which take the clients' mean update for a gradient and remember earlier rounds.

D is the mean of the clients' updates, weighted by rows, x the model, and eta the server's learning rate. All
operations are elementwise:

    fedavgm   v <- beta v + D                                   x <- x + eta v
    fedadam   m <- beta1 m + (1 - beta1) D                      x <- x + eta m / (sqrt(v) + tau)
              v <- beta2 v + (1 - beta2) D^2
    fedyogi   as fedadam, but v <- v - (1 - beta2) D^2 sign(v - D^2)

`fedavgm`: Hsu, Qi & Brown 2019, arXiv 1909.06335, Section 4 (there eta = 1). `fedadam`, `fedyogi`: Reddi et
al. 2021, "Adaptive Federated Optimization", Algorithm 2. It starts at m = 0 and v >= tau^2; here v = tau^2.
As there, moments are not corrected for their start. Its pseudocode weighs clients equally; here rows count,
as in `fedavg`. A round without uploads changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.arguments import at_least_zero, positive
from mechanisms.noise.clipping import Floats
from mechanisms.noise.randomness import Words
from mechanisms.servers.server import Federation, FixedSample, State, Upload, mean_of

Doubles = NDArray[np.float64]


class Optimizer(Protocol):
    """One step of the server."""

    def start(self, d: int) -> State:
        """Returns the memory before the first step, for `d` parameters."""

    def step(self, update: Doubles, memory: State) -> tuple[Doubles, State]:
        """Returns by how much the model moves (d,), and the new memory, for the mean update (d,)."""


def decay(name: str, value: object) -> float:
    """Returns `value` as a float from 0 to below 1. Raises ValueError or TypeError with `name`."""
    number = at_least_zero(name, value)
    if number >= 1:
        raise ValueError(f"{name} = {value!r} is not allowed: a number from 0 to below 1")
    return number


# -- momentum ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Momentum:
    """`fedavgm`: eta = `learning_rate`, beta = `momentum`; 1 and 0 are federated averaging."""

    learning_rate: float
    momentum: float

    def __post_init__(self) -> None:
        positive("learning_rate", self.learning_rate)
        decay("momentum", self.momentum)

    def start(self, d: int) -> Doubles:
        """v = 0."""
        return np.zeros(d)

    def step(self, update: Doubles, memory: Doubles) -> tuple[Doubles, Doubles]:
        """See Optimizer.step."""
        velocity = self.momentum * memory + update
        return self.learning_rate * velocity, velocity


# -- adaptive steps ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moments:
    """m and v, (d,) each."""

    first: Doubles
    second: Doubles


Second = Callable[[Doubles, Doubles, float], Doubles]


def adam_second(second: Doubles, squares: Doubles, beta2: float) -> Doubles:
    """v of `fedadam` after D^2 = `squares`."""
    return beta2 * second + (1 - beta2) * squares


def yogi_second(second: Doubles, squares: Doubles, beta2: float) -> Doubles:
    """v of `fedyogi` after D^2 = `squares`: it falls slowly where updates become small."""
    moved: Doubles = second - (1 - beta2) * squares * np.sign(second - squares)
    return moved


@dataclass(frozen=True, slots=True)
class Adaptive:
    """`fedadam` and `fedyogi`, which differ in `second`; tau is in the unit of the model's parameters."""

    learning_rate: float
    beta1: float
    beta2: float
    tau: float
    second: Second

    def __post_init__(self) -> None:
        positive("learning_rate", self.learning_rate)
        decay("beta1", self.beta1)
        decay("beta2", self.beta2)
        positive("tau", self.tau)

    def start(self, d: int) -> Moments:
        """m = 0, v = tau^2."""
        return Moments(np.zeros(d), np.full(d, self.tau**2))

    def step(self, update: Doubles, memory: Moments) -> tuple[Doubles, Moments]:
        """See Optimizer.step."""
        first = self.beta1 * memory.first + (1 - self.beta1) * update
        second = self.second(memory.second, update**2, self.beta2)
        moved: Doubles = self.learning_rate * first / (np.sqrt(second) + self.tau)
        return moved, Moments(first, second)


# -- the server --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OptimizingServer(FixedSample):
    """Federated averaging with `optimizer` at the server, whose memory is the state."""

    name: str
    optimizer: Optimizer
    figures: Mapping[str, float]

    def start(self) -> State:
        """The optimiser's memory."""
        return self.optimizer.start(self.federation.dimension)

    def combine(
        self, model: Floats, state: State, uploads: Sequence[Upload], words: Words
    ) -> tuple[Floats, State]:
        """x plus the optimiser's step for the mean update."""
        if not len(uploads):
            return model, state
        origin = model.astype(np.float64)
        moved, after = self.optimizer.step(mean_of(uploads).astype(np.float64) - origin, state)
        new: Floats = (origin + moved).astype(np.float32)
        return new, after


def fedavgm(
    federation: Federation, clients_per_round: int, learning_rate: float = 1.0, momentum: float = 0.9
) -> OptimizingServer:
    """Builds FedAvgM. Raises ValueError or TypeError for values that are not allowed."""
    optimizer = Momentum(learning_rate, momentum)
    figures = {"server learning rate": float(learning_rate), "server momentum": float(momentum)}
    return OptimizingServer(federation, clients_per_round, "fedavgm", optimizer, figures)


def fedadam(
    federation: Federation,
    clients_per_round: int,
    learning_rate: float = 0.03,
    beta1: float = 0.9,
    beta2: float = 0.99,
    tau: float = 1e-3,
) -> OptimizingServer:
    """Builds FedAdam. The decays and tau are the paper's, which tunes the learning rate for each task.

    Raises ValueError or TypeError for values that are not allowed.
    """
    optimizer = Adaptive(learning_rate, beta1, beta2, tau, adam_second)
    figures = {"server learning rate": float(learning_rate), "server tau": float(tau)}
    return OptimizingServer(federation, clients_per_round, "fedadam", optimizer, figures)


def fedyogi(
    federation: Federation,
    clients_per_round: int,
    learning_rate: float = 0.03,
    beta1: float = 0.9,
    beta2: float = 0.99,
    tau: float = 1e-3,
) -> OptimizingServer:
    """Builds FedYogi; see `fedadam`."""
    optimizer = Adaptive(learning_rate, beta1, beta2, tau, yogi_second)
    figures = {"server learning rate": float(learning_rate), "server tau": float(tau)}
    return OptimizingServer(federation, clients_per_round, "fedyogi", optimizer, figures)
