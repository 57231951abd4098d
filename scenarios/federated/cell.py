"""Federated averaging with a server, as a cell of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from mechanisms.noise.randomness import SeededWords
from node.system.errors import ConfigError, reason, shown
from node.task.rules import read_section, shared_values
from node.task.sections import ModelSection, TrainSection
from scenarios.clients.preparation import check_attackers, prepared
from scenarios.clients.work import SAMPLE, FederatedArm, client_work
from scenarios.data.own import DataName
from scenarios.federated.reported import census_of, with_clients
from scenarios.federated.rounds import rounds_of
from scenarios.study.cells import BaseCell, Outcome, Room, refuse_foreign

_SERVER = 16  # a stream of random numbers: [this, seed, ...]
_CHOSEN = "clients_per_round"


@dataclass(frozen=True)
class FederatedCell(FederatedArm, BaseCell):
    """One arm with one seed, as a cell of a sweep."""

    kind: ClassVar[str] = "federated"

    @property
    def data_sets(self) -> tuple[DataName, ...]:
        """The data set of its rows."""
        return (self.rows.dataset,)

    def check(self, room: Room) -> None:
        """See Cell.check. Divides the rows, makes model and mechanism, and samples clients once."""
        work = client_work(self, room.dataset(self.rows.dataset, self.seed))
        check_attackers(work)
        try:
            work.mechanism.sample(len(work.parts), np.random.default_rng([SAMPLE, self.seed]))
        except Exception as error:  # a user's mechanism may raise anything
            raise ConfigError(f"mechanism {shown(self.mechanism.path)}: {reason(error)}") from error

    def among(self, peers: int) -> Self:
        """The same arm with `peers` clients, each with as many rows as before if the arm limits its rows.

        If every round had all clients, every round has all of the new ones.
        """
        count, mechanism = self.clients.count, self.mechanism
        most = None if self.rows.most is None else self.rows.most * peers // count
        if mechanism.parameters.get(_CHOSEN) == count:
            mechanism = replace(mechanism, parameters={**mechanism.parameters, _CHOSEN: peers})
        rows, clients = replace(self.rows, most=most), replace(self.clients, count=peers)
        return replace(self, rows=rows, clients=clients, mechanism=mechanism)

    def changed(self, table: Mapping[str, Mapping[str, object]]) -> Self:
        """The same arm with new values for keys of [train] and [model]. Raises ConfigError."""
        refuse_foreign(table, ("train", "model"), "train.*, model.*")
        train = {**shared_values(self.train), **table.get("train", {})}
        model = {**shared_values(self.model), **table.get("model", {})}
        given = {name: value for name, value in train.items() if value is not None}
        return replace(
            self,
            train=read_section(TrainSection, "train", given),
            model=read_section(ModelSection, "model", model),
        )

    def replay(self, room: Room) -> Outcome:
        """Run the rounds in this process with the room's crew and seeded noise."""
        bare = client_work(self, room.dataset(self.rows.dataset, self.seed))
        work = prepared(bare, bare.example_words)
        words = SeededWords(np.random.default_rng([_SERVER, self.seed, work.salt]))
        with room.crew(work) as crew:
            return with_clients(rounds_of(work, crew, words, room), census_of(bare))
