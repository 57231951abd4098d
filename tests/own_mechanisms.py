"""Mechanisms as a user may write them, for tests to name by import path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mechanisms.accounting.ledger import Gaussian, Relation, Unit
from mechanisms.mechanism import Floats, Guarantee, Memory, Offer, Quiet, Setting, Unprotected
from mechanisms.noise.randomness import Words
from mechanisms.servers.server import (
    FedAvg,
    Federation,
    Indices,
    Labels,
    Sent,
    Trained,
    Upload,
    fixed_sample,
)

Counts = tuple[int, float, tuple[int, ...], tuple[float, ...]]

UNIT = Unit("one ward", Relation.REPLACE, "L2")


class Counting(Quiet):
    """Offers half of the update, counts its offers, and charges each one as a release.

    Its budget is the cost of `rounds` offers by its own count: each is one release of multiplier 1.
    """

    name = "counting"
    protects = "a half of your update stays at home"
    bound = 2.0

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.guarantee: Guarantee | None = Guarantee(UNIT, setting.epsilon, setting.delta, setting.epsilon)

    @property
    def per_offer(self) -> tuple[Gaussian, ...]:
        return (Gaussian(1.0),)

    def offer(self, fresh: Floats, memory: Memory, words: Words) -> Offer:
        (made,) = memory[0] if memory else (0.0,)
        return Offer(fresh / 2, ((made + 1,),))


class Stepping(Counting):
    """Charges each step of a round."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.steps = setting.steps


class Learning(Unprotected):
    """Remembers the first coordinate of every aggregate and its number of offers."""

    name = "learning"

    def __init__(self, setting: Setting) -> None:
        pass

    def aggregated(self, mean: Floats, members: int, memory: Memory) -> Memory:
        return (*memory, (float(mean[0]), float(members)))


class Observing(Counting):
    """Counts its offers, and remembers every aggregate."""

    aggregated = Learning.aggregated


class Raising(Unprotected):
    """Cannot be constructed."""

    def __init__(self, setting: Setting) -> None:
        raise RuntimeError("the noise\nmachine is out of order")


class Unfinished:
    """Has neither costs nor offers."""

    name = "unfinished"
    protects = "nothing"
    guarantee = None
    bound = 0.0
    gradient = None

    def __init__(self, setting: Setting) -> None:
        pass


class TakesNothing(Unprotected):
    """Takes no setting, but is called with one."""

    def __init__(self) -> None:
        pass


# -- with a server -----------------------------------------------------------------------------------------


class Shrinking(FedAvg):
    """Federated averaging with clients that send the mean of their start and their end."""

    __slots__ = ()

    def upload(self, weights: Floats, start: Floats, rows: int, words: Words) -> Floats:
        return 0.5 * start + 0.5 * weights


class Greedy(FedAvg):
    """Can be constructed, and samples more clients than there are."""

    __slots__ = ()

    def sample(self, clients: int, rng: np.random.Generator) -> Indices:
        return fixed_sample(clients, clients + 1, rng)


class Breaking(FedAvg):
    """Can be constructed, and fails when a client has finished."""

    __slots__ = ()

    def upload(self, weights: Floats, start: Floats, rows: int, words: Words) -> Floats:
        raise RuntimeError("the scales\nare stuck")


class Unreadable(FedAvg):
    """Fails when it is to make the rows of a round."""

    __slots__ = ()

    def __init__(self, federation: Federation) -> None:
        super().__init__(federation, 1)

    def examples_of_round(self, x: Floats, y: Labels, client: int, words: Words) -> tuple[Floats, Labels]:
        raise RuntimeError("not today")


class Remembering(FedAvg):
    """Federated averaging that counts: the server its rounds and uploads, each client its own rounds.

    State: (rounds so far, sum of what clients were told, uploads by client, the last count that each sent).
    """

    __slots__ = ()

    @property
    def client_memory(self) -> int:
        return 1

    def start(self) -> Counts:
        return 0, 0.0, (0,) * self.federation.clients, (0.0,) * self.federation.clients

    def told(self, state: Counts) -> Floats:
        return np.array([state[0], 0], np.float32)

    def state_figures(self, state: Counts) -> Mapping[str, float]:
        _, told, counted, said = state
        return {
            "rounds told to clients": told,
            **{f"uploads of client {client}": float(times) for client, times in enumerate(counted)},
            **{f"uploads that client {client} remembers": times for client, times in enumerate(said)},
        }

    def send(self, trained: Trained, words: Words) -> Sent:
        kept = trained.kept + 1
        return Sent(np.concatenate([trained.weights, trained.told[:1], kept]), kept)

    def combine(
        self, model: Floats, state: Counts, uploads: Sequence[Upload], words: Words
    ) -> tuple[Floats, Counts]:
        rounds, told, counted, said = state
        plain = [replace(sent, vector=sent.vector[: len(model)]) for sent in uploads]
        told += float(np.mean([sent.vector[-2] for sent in uploads]))
        now = {sent.client: float(sent.vector[-1]) for sent in uploads}
        new, _ = super().combine(model, None, plain, words)
        return new, (
            rounds + 1,
            told,
            tuple(times + (client in now) for client, times in enumerate(counted)),
            tuple(now.get(client, before) for client, before in enumerate(said)),
        )


class Former(FedAvg):
    """Combines by the hook of version 0.1: rows beside the uploads, and no state."""

    __slots__ = ()

    def combine(self, model, uploads, rows, words):  # type: ignore[no-untyped-def, override]  # the former hook
        return model
