"""Mechanisms as a user may write them, for tests to name by import path."""

from __future__ import annotations

import numpy as np

from mechanisms.accounting.ledger import Gaussian, Relation, Unit
from mechanisms.mechanism import Floats, Guarantee, Memory, Offer, Quiet, Setting, Unprotected
from mechanisms.noise.randomness import Words
from mechanisms.servers.server import FedAvg, Indices, fixed_sample

UNIT = Unit("one ward", Relation.REPLACE, "L2")


class Counting(Quiet):
    """Offers a half of the update, remembers how many offers it has made, and charges each for one release.

    The budget is what `rounds` offers cost by its own count: one release of multiplier 1 each.
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


class Learning(Unprotected):
    """Remembers of every aggregate its first coordinate and how many offers were in it."""

    name = "learning"

    def __init__(self, setting: Setting) -> None:
        pass

    def aggregated(self, mean: Floats, members: int, memory: Memory) -> Memory:
        return (*memory, (float(mean[0]), float(members)))


class Raising(Unprotected):
    """Can not be made."""

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
    """Is called with a setting all the same."""

    def __init__(self) -> None:
        pass


# -- with a server -----------------------------------------------------------------------------------------


class Shrinking(FedAvg):
    """Federated averaging whose clients send the middle between where they began and where they came."""

    __slots__ = ()

    def upload(self, weights: Floats, start: Floats, rows: int, words: Words) -> Floats:
        return 0.5 * start + 0.5 * weights


class Greedy(FedAvg):
    """Can be made, and samples more clients than there are."""

    __slots__ = ()

    def sample(self, clients: int, rng: np.random.Generator) -> Indices:
        return fixed_sample(clients, clients + 1, rng)


class Breaking(FedAvg):
    """Can be made, and fails when a client is done."""

    __slots__ = ()

    def upload(self, weights: Floats, start: Floats, rows: int, words: Words) -> Floats:
        raise RuntimeError("the scales\nare stuck")
