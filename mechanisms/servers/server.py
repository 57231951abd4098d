"""The server's role in federated averaging, as a few pure hooks that any engine can run.

A round, as every engine runs it:

    before the first: x, y = examples(x, y, client, words) of each client that has rows
    chosen = sample(clients, rng)
    model = broadcast(model, words)                 # what the clients of this round start from
    each chosen client, from `model`: after every batch weights = after_batch(weights, start, step);
                                      at the end sent = upload(weights, start, rows, words)
    model = combine(model, all that was sent, their rows, words)

The model that is evaluated is what `combine` returns. Hooks change none of their arguments and remember
nothing, so clients may be trained in blocks, or one a process. The server is trusted to do its part: what a
guarantee says about a curious server stands in the mechanism's `protects`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Event, Gaussian
from mechanisms.arguments import count, share
from mechanisms.mechanism import Guarantee, Protection
from mechanisms.noise.clipping import Floats
from mechanisms.noise.randomness import Words

Indices = NDArray[np.int64]
Labels = NDArray[np.int64]

NO_NOISE: tuple[Event, ...] = (Gaussian(0.0),)
"""What is released without noise, or without a bound on what one client can do to it: epsilon is infinite."""


@dataclass(frozen=True, slots=True)
class Federation:
    """The work a mechanism is made for: `rows` of each client, `rounds`, `sizes` of the model's tensors.

    All of it is treated as public. `sizes` are numbers of parameters in the order of the vector (d,).
    """

    rows: tuple[int, ...]
    rounds: int
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        count("rounds", self.rounds)
        for name in ("rows", "sizes"):
            if not getattr(self, name):
                raise ValueError(f"{name} = () is not allowed: one whole number of at least 1, or more")
            for value in getattr(self, name):
                count(name, value)

    @property
    def clients(self) -> int:
        """N, of whom some are chosen for a round."""
        return len(self.rows)

    @property
    def dimension(self) -> int:
        """d."""
        return sum(self.sizes)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of local training that was just made: by which `clients`, (k,) numbers, and how large it was."""

    clients: Indices
    learning_rate: float


class ServerMechanism(Protection, Protocol):
    """What the server and its clients do beside training. Made by a call with a `Federation`."""

    @property
    def proximal(self) -> float:
        """mu of the term (mu / 2) ||w - w0||^2 in the clients' loss; 0 for none."""

    @property
    def grad_clip(self) -> float | None:
        """The L2 norm that a batch's gradient is clipped to, no privacy meant; None for none."""

    @property
    def withstands(self) -> int | None:
        """How many lying clients a round it withstands, by a stated breakdown point; None: it has no such."""

    @property
    def figures(self) -> Mapping[str, float]:
        """Its own figures for results, such as the std of its noise, by name with unit."""

    def events(self, rounds: int) -> tuple[Event, ...]:
        """What so many rounds cost, for the unit of `guarantee`; `NO_NOISE` where that is None."""

    def examples(self, x: Floats, y: Labels, client: int, words: Words) -> tuple[Floats, Labels]:
        """What `client` trains on in all rounds, made once: of its rows x (n, ...) and labels y (n,)."""

    def sample(self, clients: int, rng: np.random.Generator) -> Indices:
        """This round's clients, (k,) of 0 to `clients` - 1, in order; there may be none."""

    def broadcast(self, model: Floats, words: Words) -> Floats:
        """What clients start from: `model` (d,), with the server's noise where it has any."""

    def after_batch(self, weights: torch.Tensor, start: torch.Tensor, step: Step) -> torch.Tensor:
        """(k, d) after a `step` of k clients with `weights` (k, d) that all began at `start` (d,)."""

    def upload(self, weights: Floats, start: Floats, rows: int, words: Words) -> Floats:
        """(d,) that a client with `rows` rows sends at the end of its training."""

    def combine(self, model: Floats, uploads: Sequence[Floats], rows: Sequence[int], words: Words) -> Floats:
        """The new model (d,) from the broadcast `model` (d,) and what clients of so many `rows` sent."""


ALL_AT_STAKE = "every upload is what the client learned, without noise: whoever reads it may read its data"


class Averaging:
    """The hooks of federated averaging (McMahan et al. 2017, Algorithm 1), for others to change a part of.

    Nothing is noised, clipped or remembered; the uploads' mean, weighted by rows, is the new model.
    """

    __slots__ = ()

    @property
    def guarantee(self) -> Guarantee | None:
        """None."""
        return None

    @property
    def withstands(self) -> int | None:
        """A mean has no breakdown point: a single client moves it anywhere."""
        return None

    @property
    def figures(self) -> Mapping[str, float]:
        """None."""
        return {}

    def events(self, rounds: int) -> tuple[Event, ...]:
        """An infinite epsilon, however few the rounds."""
        count("rounds", rounds)
        return NO_NOISE

    def examples(self, x: Floats, y: Labels, client: int, words: Words) -> tuple[Floats, Labels]:
        """The rows and labels themselves."""
        return x, y

    def broadcast(self, model: Floats, words: Words) -> Floats:
        """`model` itself."""
        return model

    def after_batch(self, weights: torch.Tensor, start: torch.Tensor, step: Step) -> torch.Tensor:
        """`weights` itself."""
        return weights

    def upload(self, weights: Floats, start: Floats, rows: int, words: Words) -> Floats:
        """`weights` itself."""
        return weights

    def combine(self, model: Floats, uploads: Sequence[Floats], rows: Sequence[int], words: Words) -> Floats:
        """The mean of the uploads; `model` itself where there are none."""
        return weighted_mean(uploads, rows) if len(uploads) else model


class PlainTraining(Averaging):
    """As `Averaging`, with the clients' loss and gradients as they are."""

    __slots__ = ()

    @property
    def proximal(self) -> float:
        """No such term."""
        return 0.0

    @property
    def grad_clip(self) -> float | None:
        """None."""
        return None


@dataclass(frozen=True, slots=True)
class FedAvg(PlainTraining):
    """The plain one: `clients_per_round` of the federation's clients, without replacement, and no noise."""

    federation: Federation
    clients_per_round: int

    def __post_init__(self) -> None:
        among("clients_per_round", self.clients_per_round, self.federation)

    @property
    def name(self) -> str:
        """As results name it."""
        return "fedavg"

    @property
    def protects(self) -> str:
        """In a sentence."""
        return ALL_AT_STAKE

    def sample(self, clients: int, rng: np.random.Generator) -> Indices:
        """`clients_per_round` of them."""
        return fixed_sample(clients, self.clients_per_round, rng)


# -- parts ---------------------------------------------------------------------------------------------


def among(name: str, value: object, federation: Federation) -> int:
    """`value` as a number of clients, of at most all. ValueError or TypeError with `name`."""
    chosen = count(name, value)
    if chosen > federation.clients:
        raise ValueError(
            f"{name} = {chosen} is not allowed: at most {federation.clients}, the number of clients"
        )
    return chosen


def fixed_sample(clients: int, size: int, rng: np.random.Generator) -> Indices:
    """`size` of `clients`, (size,) in order, each set of that size as likely as any other."""
    if count("size", size) > count("clients", clients):
        raise ValueError(f"size = {size} is not allowed: at most {clients}, the number of clients")
    return np.sort(rng.choice(clients, size, replace=False)).astype(np.int64)


def poisson_sample(clients: int, sampling_probability: float, rng: np.random.Generator) -> Indices:
    """Those of `clients`, (k,) in order, that are in by `sampling_probability`, each independently."""
    probability = share("sampling_probability", sampling_probability)
    return np.flatnonzero(rng.random(count("clients", clients)) < probability).astype(np.int64)


def weighted_mean(vectors: Sequence[Floats], rows: Sequence[int]) -> Floats:
    """sum (n_k / n) v_k, (d,) float32, of `vectors` (d,) each with n_k of the n `rows`; sums in float64."""
    pairs = matched(vectors, rows)
    total = math.fsum(rows)
    mean = np.zeros(len(vectors[0]))
    for vector, own in pairs:
        mean += (own / total) * vector.astype(np.float64)
    return mean.astype(np.float32)


def matched(vectors: Sequence[Floats], rows: Sequence[int]) -> list[tuple[Floats, int]]:
    """Each of `vectors` with its rows. ValueError unless there are as many, all of one shape (d,)."""
    if len(vectors) != len(rows) or not len(vectors):
        raise ValueError(f"rows has {len(rows)} values for {len(vectors)} uploads; allowed: one an upload")
    shapes = {vector.shape for vector in vectors}
    if len(shapes) > 1:
        raise ValueError(f"uploads of shapes {sorted(shapes)} are not allowed: all of one shape")
    return [(vector, count("rows", own)) for vector, own in zip(vectors, rows, strict=True)]
