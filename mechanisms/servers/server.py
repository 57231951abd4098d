"""The server's role in federated averaging, as a few pure hooks that any engine can run.

Every engine runs a round like this:

    before the first: x, y = examples(x, y, client, words) of each client that has rows
                      state = start()
    chosen = sample(clients, rng)
    model = broadcast(model, words)                 # where the clients of this round start
    each chosen client, from `model` and told(state):
                      x, y = examples_of_round(x, y, client, words), for this round
                      after every batch weights = after_batch(weights, start, step)
                      at the end sent = send(trained, words), which calls upload(weights, start, rows, words)
    model, state = combine(model, state, all uploads, words)

The engine evaluates the model that `combine` returns. Hooks change none of their arguments. The server
remembers the value `state`, which the engine hands from round to round. A client remembers the vector `kept`,
which stays where the client trains. So an engine may train clients in blocks, or one in each process. The
server is trusted to do its part; `protects` says what a guarantee means against a curious server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms.accounting.ledger import (
    NO_BOUND,
    Event,
    Ledger,
    Relation,
    SampledGaussian,
    Unit,
    privacy_spent,
)
from mechanisms.arguments import at_least_zero, count, probability, share
from mechanisms.mechanism import Guarantee, Protection
from mechanisms.noise.clipping import Floats
from mechanisms.noise.randomness import Words

Indices = NDArray[np.int64]
Labels = NDArray[np.int64]

State = Any
"""What a server remembers from round to round: an immutable value that only its mechanism reads."""

NO_NOISE: tuple[Event, ...] = (NO_BOUND,)
"""The events of a mechanism without noise, or without a bound on a client's effect: epsilon is infinite."""

ONE_USER = Unit("one user's whole data, over the run", Relation.ADD_REMOVE, "L2")


@dataclass(frozen=True, slots=True)
class Federation:
    """The setting of a mechanism: `rows` of each client, number of `rounds`, `sizes` of the model's tensors.

    All of it counts as public. `sizes`: numbers of parameters, in the order of the vector (d,).
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
        """N, the number of clients."""
        return len(self.rows)

    @property
    def dimension(self) -> int:
        """d, the number of the model's parameters."""
        return sum(self.sizes)


@dataclass(frozen=True, slots=True)
class Step:
    """A completed step of local training: the numbers (k,) of its `clients`, and its learning rate.

    told: (e,), what the server tells all clients of its state; kept: (k, m), what each client remembers.
    """

    clients: Indices
    learning_rate: float
    told: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    kept: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32))


@dataclass(frozen=True, slots=True)
class Trained:
    """A client at the end of its training in a round: `weights` (d,), `steps` steps after `start` (d,).

    rows: how many it trained on; told (e,) and kept (m,): as in `Step`.
    """

    client: int
    weights: Floats
    start: Floats
    rows: int
    steps: int
    learning_rate: float
    told: Floats
    kept: Floats


@dataclass(frozen=True, slots=True)
class Sent:
    """The `vector` (d + e,) that a client sends, and what it keeps (m,) until its next round."""

    vector: Floats
    kept: Floats


@dataclass(frozen=True, slots=True)
class Upload:
    """The `vector` (d + e,) that arrived from `client`, which has `rows` rows."""

    client: int
    rows: int
    vector: Floats


class ServerMechanism(Protection, Protocol):
    """The hooks of the server and its clients around training. A maker takes a `Federation`.

    d is the number of the model's parameters. e more numbers, the length of `told`, travel with the model and
    with an upload. m numbers, `client_memory`, are what a client remembers. e and m are 0 for most
    mechanisms.
    """

    @property
    def proximal(self) -> float:
        """mu of the term (mu / 2) ||w - w0||^2 in the clients' loss; 0 for none."""

    @property
    def grad_clip(self) -> float | None:
        """The L2 norm to which clients clip a batch's gradient, not for privacy; None if they do not."""

    @property
    def withstands(self) -> int | None:
        """How many lying clients in a round it withstands: its breakdown point; None without one."""

    @property
    def figures(self) -> Mapping[str, float]:
        """The mechanism's own figures for results, such as the std of its noise, by name."""

    @property
    def client_memory(self) -> int:
        """m, how many numbers a client remembers from one of its rounds to the next; at first zeros."""

    def start(self) -> State:
        """Returns the server's state before the first round."""

    def told(self, state: State) -> Floats:
        """Returns what the server tells all clients of `state`: (e,), with the same e in all rounds."""

    def state_figures(self, state: State) -> Mapping[str, float]:
        """Returns the figures of the `state` after the last round, by name."""

    def events(self, rounds: int) -> tuple[Event, ...]:
        """The events of `rounds` rounds, for the unit of `guarantee`; without noise if that is None."""

    def examples(self, x: Floats, y: Labels, client: int, words: Words) -> tuple[Floats, Labels]:
        """Makes the examples that `client` trains on in all rounds, from its x (n, ...) and y (n,)."""

    def examples_of_round(self, x: Floats, y: Labels, client: int, words: Words) -> tuple[Floats, Labels]:
        """Makes the examples that `client` trains on in one round, from what `examples` returned."""

    def sample(self, clients: int, rng: np.random.Generator) -> Indices:
        """Samples this round's clients: (k,) numbers in 0 to `clients` - 1, ascending; k may be 0."""

    def broadcast(self, model: Floats, words: Words) -> Floats:
        """Returns the model (d,) from which clients start: `model` (d,), with any noise of the server."""

    def after_batch(self, weights: torch.Tensor, start: torch.Tensor, step: Step) -> torch.Tensor:
        """Returns the weights (k, d) with which k clients go on, from `weights` (k, d) after `step`.

        They began at `start` (d,).
        """

    def upload(self, weights: Floats, start: Floats, rows: int, words: Words) -> Floats:
        """Returns the (d,) that a client with `rows` rows sends at the end of its training."""

    def send(self, trained: Trained, words: Words) -> Sent:
        """Returns what a client sends at the end of its training, and what it keeps."""

    def combine(
        self, model: Floats, state: State, uploads: Sequence[Upload], words: Words
    ) -> tuple[Floats, State]:
        """Returns the new model (d,) and state, from the broadcast `model` (d,) and the round's uploads."""


ALL_AT_STAKE = "every upload is what the client learned, without noise: whoever reads it may read its data"


class PlainTraining:
    """The hooks of federated averaging (McMahan et al. 2017, Algorithm 1); subclasses override some of them.

    They add no noise, clip nothing, remember nothing, and leave the clients' loss and gradients unchanged.
    The new model is the mean of the uploads, weighted by rows.
    """

    __slots__ = ()

    @property
    def protects(self) -> str:
        """What the mechanism protects, in one sentence."""
        return ALL_AT_STAKE

    @property
    def proximal(self) -> float:
        """0: the loss has no proximal term."""
        return 0.0

    @property
    def grad_clip(self) -> float | None:
        """None: gradients are not clipped."""
        return None

    @property
    def guarantee(self) -> Guarantee | None:
        """None: there is no noise."""
        return None

    @property
    def withstands(self) -> int | None:
        """None: a mean has no breakdown point, as a single client can move it anywhere."""
        return None

    @property
    def figures(self) -> Mapping[str, float]:
        """No figures."""
        return {}

    @property
    def client_memory(self) -> int:
        """0: a client remembers nothing."""
        return 0

    def start(self) -> State:
        """None: the server remembers nothing."""
        return None

    def told(self, state: State) -> Floats:
        """No numbers: (0,)."""
        return np.zeros(0, np.float32)

    def state_figures(self, state: State) -> Mapping[str, float]:
        """No figures."""
        return {}

    def events(self, rounds: int) -> tuple[Event, ...]:
        """`NO_NOISE`: epsilon is infinite, however few the rounds."""
        count("rounds", rounds)
        return NO_NOISE

    def examples(self, x: Floats, y: Labels, client: int, words: Words) -> tuple[Floats, Labels]:
        """The rows and labels themselves."""
        return x, y

    def examples_of_round(self, x: Floats, y: Labels, client: int, words: Words) -> tuple[Floats, Labels]:
        """The rows and labels themselves: every round has the same."""
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

    def send(self, trained: Trained, words: Words) -> Sent:
        """Sends what `upload` returns, and keeps what it had."""
        return Sent(self.upload(trained.weights, trained.start, trained.rows, words), trained.kept)

    def combine(
        self, model: Floats, state: State, uploads: Sequence[Upload], words: Words
    ) -> tuple[Floats, State]:
        """Returns the mean of the uploads, or `model` itself if there are none, and `state`."""
        return mean_of(uploads) if len(uploads) else model, state


@dataclass(frozen=True, slots=True)
class FixedSample(PlainTraining):
    """`PlainTraining` of `clients_per_round` clients, sampled without replacement."""

    federation: Federation
    clients_per_round: int

    def __post_init__(self) -> None:
        client_count(self.clients_per_round, self.federation)

    def sample(self, clients: int, rng: np.random.Generator) -> Indices:
        """Samples `clients_per_round` of them."""
        return fixed_sample(clients, self.clients_per_round, rng)


@dataclass(frozen=True, slots=True)
class PoissonSample(PlainTraining):
    """`PlainTraining` of each client with probability q, whose rounds are sampled Gaussian releases.

    sampling_probability: q. noise_multiplier: z; 0 adds no noise and gives no guarantee. delta: of the
    guarantee.
    """

    federation: Federation
    sampling_probability: float
    noise_multiplier: float
    delta: float

    outside: ClassVar[str]
    """What the guarantee does not cover."""

    def __post_init__(self) -> None:
        share("sampling_probability", self.sampling_probability)
        at_least_zero("noise_multiplier", self.noise_multiplier)
        probability("delta", self.delta)

    @property
    def guarantee(self) -> Guarantee | None:
        """The guarantee of sampled Gaussian releases over all rounds; None without noise."""
        found = privacy_spent(Ledger.of(self.events(self.federation.rounds)), self.delta)
        if math.isinf(found.epsilon):
            return None
        return Guarantee(ONE_USER, found.epsilon, self.delta, found.epsilon, self.outside)

    def events(self, rounds: int) -> tuple[Event, ...]:
        """One Poisson-sampled Gaussian release of z per round."""
        steps = count("rounds", rounds)
        return (SampledGaussian(self.noise_multiplier, self.sampling_probability, steps),)

    def sample(self, clients: int, rng: np.random.Generator) -> Indices:
        """Samples each client with probability q.

        The guarantee requires that nobody else knows `rng`: use a seeded one only in simulations.
        """
        return poisson_sample(clients, self.sampling_probability, rng)


@dataclass(frozen=True, slots=True)
class FedAvg(FixedSample):
    """Plain FedAvg: it samples `clients_per_round` clients without replacement and adds no noise."""

    name = "fedavg"


# -- parts ---------------------------------------------------------------------------------------------


def client_count(clients_per_round: object, federation: Federation) -> int:
    """Returns it as a number of clients, from 1 to all. Raises ValueError or TypeError."""
    chosen = count("clients_per_round", clients_per_round)
    if chosen > federation.clients:
        raise ValueError(
            f"clients_per_round = {chosen} is not allowed: at most {federation.clients}, the number of "
            "clients"
        )
    return chosen


def fixed_sample(clients: int, size: int, rng: np.random.Generator) -> Indices:
    """Samples `size` of `clients`: (size,), ascending; all sets of this size are equally likely."""
    if count("size", size) > count("clients", clients):
        raise ValueError(f"size = {size} is not allowed: at most {clients}, the number of clients")
    return np.sort(rng.choice(clients, size, replace=False)).astype(np.int64)


def poisson_sample(clients: int, sampling_probability: float, rng: np.random.Generator) -> Indices:
    """Samples each of `clients` independently with `sampling_probability`: (k,), ascending."""
    q = share("sampling_probability", sampling_probability)
    return np.flatnonzero(rng.random(count("clients", clients)) < q).astype(np.int64)


def mean_of(uploads: Sequence[Upload]) -> Floats:
    """The mean of the uploads' vectors, weighted by rows; see `weighted_mean`."""
    return weighted_mean([sent.vector for sent in uploads], [sent.rows for sent in uploads])


def weighted_mean(vectors: Sequence[Floats], rows: Sequence[int]) -> Floats:
    """sum (n_k / n) v_k for `vectors` v_k (d,) with n_k of n `rows`: (d,) float32, summed in float64."""
    pairs = pair_with_rows(vectors, rows)
    total = math.fsum(rows)
    mean = np.zeros(len(vectors[0]))
    for vector, own in pairs:
        mean += (own / total) * vector.astype(np.float64)
    return mean.astype(np.float32)


def pair_with_rows(vectors: Sequence[Floats], rows: Sequence[int]) -> list[tuple[Floats, int]]:
    """Pairs `vectors` with `rows`. Raises ValueError unless there are as many of both, and of one shape."""
    if len(vectors) != len(rows) or not len(vectors):
        raise ValueError(f"rows has {len(rows)} values for {len(vectors)} uploads; allowed: one an upload")
    shapes = {vector.shape for vector in vectors}
    if len(shapes) > 1:
        raise ValueError(f"uploads of shapes {sorted(shapes)} are not allowed: all of one shape")
    return [(vector, count("rows", own)) for vector, own in zip(vectors, rows, strict=True)]
