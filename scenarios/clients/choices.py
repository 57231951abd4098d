"""The parts of a federated cell as plain values: its rows, their partition among clients, its mechanism.

Each value can be written to JSON. The code that uses a value checks it and raises ConfigError, one line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np

from mechanisms.noise.clipping import clip_rows
from mechanisms.registry import SERVER_MECHANISMS
from mechanisms.servers.server import Federation, ServerMechanism
from node.data.partition import RowNumbers
from node.system.errors import ConfigError, reason, shown
from node.task.import_path import import_class
from scenarios.data import partitions
from scenarios.data.dataset import FederatedDataset
from scenarios.data.own import DataName, name_of
from scenarios.data.partitions import Parts

PARTITIONS: dict[str, Callable[..., Parts]] = {
    "iid": partitions.iid,
    "dirichlet": partitions.dirichlet,
    "shards": partitions.shards,
    "natural": partitions.natural,
    "pieces": partitions.pieces,
    "quantity": partitions.quantity,
}
BY_OWNER = ("natural", "pieces")
"""Partitions by the owner of a row, not by its label."""

_SERVER_PARTS = tuple(name for name in dir(ServerMechanism) if not name.startswith("_"))


@dataclass(frozen=True)
class RowChoice:
    """The training rows that a cell uses: `most` of them, drawn from the seed; None: all.

    row_norm: every row, test rows too, is scaled down to at most this L2 norm; None: rows stay as they are.
    """

    dataset: DataName
    most: int | None = None
    row_norm: float | None = None

    def scaled(self, dataset: FederatedDataset) -> FederatedDataset:
        """`dataset` with its rows scaled down."""
        if self.row_norm is None:
            return dataset
        train_x, test_x = (clip_rows(x, self.row_norm) for x in (dataset.train_x, dataset.test_x))
        return replace(dataset, train_x=train_x, test_x=test_x)

    def chosen(self, dataset: FederatedDataset, rng: np.random.Generator) -> RowNumbers:
        """The numbers of the training rows, (n,) in order. Raises ConfigError if there are too few rows."""
        there = len(dataset.train_y)
        if self.most is None or self.most == there:
            return np.arange(there)
        if self.most > there:
            raise ConfigError(
                f"data set {name_of(self.dataset)} has {there} training rows, and {self.most} are asked for; "
                "take fewer clients"
            )
        return np.sort(rng.permutation(there)[: self.most])


@dataclass(frozen=True)
class Clients:
    """How rows are divided among clients: the name of a partition, the number of parts, its parameters."""

    partition: str
    count: int
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def deal(self, dataset: FederatedDataset, rows: RowNumbers, rng: np.random.Generator) -> Parts:
        """The row numbers of each client, out of `rows`. Raises ConfigError."""
        labels = dataset.clients if self.partition in BY_OWNER else dataset.train_y
        if labels is None:
            raise ConfigError(
                f"partition {shown(self.partition)} needs to know whose each row is, and this data set does "
                f"not tell; allowed: {', '.join(name for name in PARTITIONS if name not in BY_OWNER)}"
            )
        try:
            parts = PARTITIONS[self.partition](labels[rows], self.count, rng, **self.parameters)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"{self.count} clients by partition {self.partition}: {reason(error)}"
            ) from None
        return tuple(rows[part] for part in parts)


@dataclass(frozen=True)
class MechanismChoice:
    """A server-side mechanism: a name of `SERVER_MECHANISMS` or an import path, and keyword arguments."""

    path: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def make(self, federation: Federation) -> ServerMechanism:
        """Make the mechanism for this federation. Raises ConfigError if that fails."""
        found = SERVER_MECHANISMS.get(self.path) or self._imported()
        try:
            mechanism = found(federation, **self.parameters)
            missing = [part for part in _SERVER_PARTS if not hasattr(mechanism, part)]
            former = not missing and "rows" in signature(mechanism.combine).parameters
        except Exception as error:  # a user's mechanism may raise anything
            raise ConfigError(f"mechanism {shown(self.path)}: {reason(error)}") from error
        if missing:
            lacks = ", ".join(missing)
            raise ConfigError(f"mechanism {shown(self.path)} is no server-side mechanism: it has no {lacks}")
        if former:
            raise ConfigError(
                f"mechanism {shown(self.path)} has combine(model, uploads, rows, words); allowed: "
                "combine(model, state, uploads, words), which returns the new model and the new state; an "
                "upload has client, rows and vector"
            )
        return mechanism

    def _imported(self) -> Callable[..., ServerMechanism]:
        if ":" not in self.path:
            raise ConfigError(
                f"mechanism {shown(self.path)} is unknown; allowed: {', '.join(SERVER_MECHANISMS)}, or "
                "'package.module:Class'"
            )
        return import_class(self.path)
