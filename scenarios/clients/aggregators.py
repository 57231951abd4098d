"""Aggregators of one's own: a function by import path, with parameters, in the place of a server's mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mechanisms.noise.clipping import Floats
from mechanisms.noise.randomness import Words
from mechanisms.servers.robust import Updates
from mechanisms.servers.server import (
    Federation,
    Indices,
    PlainTraining,
    State,
    Upload,
    client_count,
    fixed_sample,
)
from node.system.errors import shown
from node.task.import_path import import_object
from scenarios.clients.choices import MechanismChoice

_HERE = f"{__name__}:Aggregated"


@dataclass(frozen=True, slots=True)
class Aggregated(PlainTraining):
    """A server that adds what the function `path` makes of the clients' updates to its model.

    The function, such as `mechanisms.servers.robust:trimmed_mean`, gets the updates (k, d), float32, a row
    per client, all finite, and `parameters` by keyword; it returns one update (d,).

    clients_per_round: None means all clients. It ignores uploads that are not finite. Raises ValueError if
    the function does not accept its parameters for so many clients, or returns something else than an update.
    """

    federation: Federation
    path: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    clients_per_round: int | None = None

    def __post_init__(self) -> None:
        self._aggregated(np.zeros((self.chosen, 2), np.float32))

    @property
    def chosen(self) -> int:
        """The number of clients of a round."""
        if self.clients_per_round is None:
            return self.federation.clients
        return client_count(self.clients_per_round, self.federation)

    @property
    def name(self) -> str:
        """The name in results."""
        return self.path.rpartition(":")[2]

    def sample(self, clients: int, rng: np.random.Generator) -> Indices:
        """Samples `chosen` of them."""
        return fixed_sample(clients, self.chosen, rng)

    def combine(
        self, model: Floats, state: State, uploads: Sequence[Upload], words: Words
    ) -> tuple[Floats, State]:
        """Returns the model plus the aggregate of the updates; the model itself if none is finite."""
        finite = [own.vector for own in uploads if np.isfinite(own.vector).all()]
        if not finite:
            return model, state
        updates = (np.stack(finite).astype(np.float64) - model).astype(np.float32)
        moved: Floats = (model.astype(np.float64) + self._aggregated(updates)).astype(np.float32)
        return moved, state

    def _aggregated(self, updates: Updates) -> Floats:
        function: Callable[..., Any] | object = import_object(self.path)
        if not callable(function):
            raise ValueError(f"{shown(self.path)} is no function; allowed: 'package.module:function'")
        result = np.asarray(function(updates, **self.parameters))
        if result.shape != updates.shape[1:]:
            raise ValueError(
                f"{shown(self.path)} returns shape {result.shape} for updates of shape {updates.shape}; "
                f"allowed: {updates.shape[1:]}, one update"
            )
        return result.astype(np.float32)


def aggregated_by(
    path: str, parameters: Mapping[str, Any], clients_per_round: int | None = None
) -> MechanismChoice:
    """The server with the aggregator that `path` names, as the mechanism of a cell."""
    return MechanismChoice(
        _HERE, {"path": path, "parameters": dict(parameters), "clients_per_round": clients_per_round}
    )
