"""A cell that tells where it ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import ray

from scenarios.frame.spec import Json
from scenarios.study.cells import Cell, Outcome, Room

NODE = "node of the cluster"
"""The name of the fact."""


@dataclass(frozen=True)
class Located:
    """The cell `of`, with the id of the node of a Ray cluster that ran it; "" outside a cluster."""

    of: Cell

    @property
    def arm(self) -> str:
        """See Cell."""
        return self.of.arm

    @property
    def seed(self) -> int:
        """See Cell."""
        return self.of.seed

    @property
    def rounds(self) -> int:
        """See Cell."""
        return self.of.rounds

    @property
    def data_sets(self) -> tuple[str, ...]:
        """See Cell."""
        return self.of.data_sets

    def check(self, room: Room) -> None:
        """See Cell."""
        self.of.check(room)

    def describe(self) -> Json:
        """See Cell."""
        return self.of.describe()

    def seeded(self, seed: int) -> Located:
        """See Cell."""
        return replace(self, of=self.of.seeded(seed))

    def lasting(self, rounds: int) -> Located:
        """See Cell."""
        return replace(self, of=self.of.lasting(rounds))

    def among(self, peers: int) -> Located:
        """See Cell."""
        return replace(self, of=self.of.among(peers))

    def changed(self, table: Mapping[str, Mapping[str, object]]) -> Located:
        """See Cell."""
        return replace(self, of=self.of.changed(table))

    def replay(self, room: Room) -> Outcome:
        """See Cell."""
        outcome = self.of.replay(room)
        node = ray.get_runtime_context().get_node_id() if ray.is_initialized() else ""
        return replace(outcome, facts={**outcome.facts, NODE: node})
