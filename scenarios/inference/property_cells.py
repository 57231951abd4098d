"""Property inference as cells of a sweep, on Adult: are most of a client's rows women?

Sex and relationship (husband, wife) are taken out of the features, and the share of high incomes is the same
whatever the sex, so that only what is left of other columns tells. Half of the rows is the attacker's, the
other half that of the clients which it judges.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from mechanisms.mechanism import Mechanism
from mechanisms.noise.randomness import SeededWords
from node.errors import ConfigError
from node.training.build import build
from node.training.trainer import read_vector
from scenarios.data.dataset import Dataset
from scenarios.federated.cell import node_rows, protection_facts
from scenarios.federated.clients import train_clients, training_of
from scenarios.inference.cell import AttackCell
from scenarios.inference.property import Makeup, counting_auc, inferred, sums
from scenarios.study.cells import Outcome, Room, salt_of
from scenarios.study.threads import one_thread

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]

COLUMNS = 107
FEMALE, MALE = 63, 64
RELATIONSHIP = range(52, 58)
"""Places in the rows of scenarios.data.tabular.ADULT: numbers, then each category's values by alphabet."""
FEATURES = COLUMNS - 2 - len(RELATIONSHIP)

MOSTLY, HARDLY, HIGH_INCOMES = 0.7, 0.3, 0.24
SHADOWS, CLIENTS = 400, 200
DRAWS = 5
"""Sums that each update is in, with other companions."""

# Streams of random numbers: [one of these, seed].
_POOLS, _ROWS, _NOISE, _SUMS = 51, 52, 53, 54
_BLOCK = 32


@dataclass(frozen=True)
class Clients:
    """Updates (n, d) as they are offered, and whether each client has the property (n,)."""

    offers: Floats
    has: Flags

    def summed(self, members: int, rng: np.random.Generator) -> Clients:
        """`DRAWS` sums with each of them, under its own property; the offers where one is a sum."""
        if members == 1:
            return self
        found = [sums(self.offers, members, rng) for _ in range(DRAWS)]
        return Clients(np.concatenate(found), np.tile(self.has, DRAWS))


@dataclass(frozen=True)
class PropertyCell(AttackCell):
    """Sums of `updates` offers, of clients with `rows` rows each; a figure is the attack's AUC."""

    updates: int
    rows: int

    dataset: ClassVar[str] = "adult"
    kind: ClassVar[str] = "property"

    def check(self, room: Room) -> None:
        """Whether the columns are Adult's, and model and mechanism can be made. Raises ConfigError."""
        narrowed, _ = without_sex(room.dataset(self.dataset, self.seed))
        self.mechanism(self._model(narrowed), self.rows)

    def replay(self, room: Room) -> Outcome:
        """In this process, with noise from the seed."""
        begun = time.perf_counter()
        narrowed, women = without_sex(room.dataset(self.dataset, self.seed))
        model = self._model(narrowed)
        mechanism = self.mechanism(model, self.rows)
        rng = np.random.default_rng([_SUMS, self.seed])
        with one_thread():
            shadows, clients = self._clients(narrowed, women, model, mechanism)
            known, seen = (part.summed(self.updates, rng) for part in (shadows, clients))
            found = inferred(known.offers, known.has, seen.offers, seen.has)
        room.say(1, found.auc)
        facts = {
            **protection_facts(mechanism),
            "accuracy": found.accuracy,
            "counting auc": counting_auc(self.updates),
        }
        return Outcome((found.auc,), facts, time.perf_counter() - begun)

    def _model(self, narrowed: Dataset) -> nn.Module:
        return build(self.model, self.seed, node_rows(narrowed, np.arange(1)))

    def _clients(
        self, narrowed: Dataset, women: Flags, model: nn.Module, mechanism: Mechanism
    ) -> tuple[Clients, Clients]:
        """The attacker's shadow clients, and those that it judges."""
        order = np.random.default_rng([_POOLS, self.seed]).permutation(len(women))
        has = np.arange(SHADOWS + CLIENTS) % 2 == 1
        pools = [order[: len(order) // 2]] * SHADOWS + [order[len(order) // 2 :]] * CLIENTS
        rng = np.random.default_rng([_ROWS, self.seed])
        parts = [
            Makeup(self.rows, MOSTLY if own else HARDLY, HIGH_INCOMES).draw(
                pool, women, narrowed.train_y, rng
            )
            for pool, own in zip(pools, has, strict=True)
        ]
        offers = self._offers(narrowed, model, mechanism, parts)
        return Clients(offers[:SHADOWS], has[:SHADOWS]), Clients(offers[SHADOWS:], has[SHADOWS:])

    def _offers(self, narrowed: Dataset, model: nn.Module, mechanism: Mechanism, parts: list[Rows]) -> Floats:
        """(n, d): what clients with these rows offer after a round."""
        start, seeds = read_vector(model, "*"), [(self.seed, client) for client in range(len(parts))]
        weights, _ = train_clients(
            model=model,
            start=start,
            rows_of_clients=parts,
            x=narrowed.train_x,
            y=narrowed.train_y,
            loss=functional.cross_entropy,
            training=training_of(self.train),
            seeds=seeds,
            after_batch=None,
            block=_BLOCK,
        )
        words = SeededWords(np.random.default_rng([_NOISE, self.seed, salt_of(self.arm)]))
        return np.stack([mechanism.offer(vector - start, (), words).vector for vector in weights])


def without_sex(dataset: Dataset) -> tuple[Dataset, Flags]:
    """Adult without sex and relationship, and which training rows are women's. Raises ConfigError."""
    x = dataset.train_x
    if x.shape[1:] != (COLUMNS,) or not (x[:, FEMALE] + x[:, MALE] == 1).all():
        raise ConfigError(
            f"data set adult has {x.shape[1]} features where the publisher's rows give {COLUMNS}: sex is not "
            "where it is looked for; take the publisher's files"
        )
    gone = [FEMALE, MALE, *RELATIONSHIP]
    train_x, test_x = np.delete(x, gone, axis=1), np.delete(dataset.test_x, gone, axis=1)
    narrowed = Dataset(
        train_x=train_x,
        train_y=dataset.train_y,
        test_x=test_x,
        test_y=dataset.test_y,
        clients=None,
        classes=dataset.classes,
        description=f"{dataset.description}, without sex and relationship",
    )
    return narrowed, x[:, FEMALE] == 1
