"""The work of training the clients of a server: an engine receives it and may send it to other processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from mechanisms.noise.clipping import Floats
from mechanisms.noise.randomness import SeededWords
from mechanisms.servers.server import Federation, Indices, Labels, ServerMechanism
from node.data import dataset as node_data
from node.system.errors import ConfigError
from node.task.sections import ModelSection, TrainSection
from node.training.build import build
from node.training.trainer import read_vector, shapes
from scenarios.clients.choices import Clients, MechanismChoice, RowChoice
from scenarios.clients.poisons import NOBODY, Attackers
from scenarios.clients.training import LocalTraining, training_of
from scenarios.data.dataset import FederatedDataset
from scenarios.data.partitions import Parts
from scenarios.frame.digests import salt_of

# Streams of random numbers: [one of these, seed, ...], so that no two are the same.
_ROWS, _DEAL, SAMPLE, _ORDER, _UPLOAD = 11, 12, 13, 14, 15
_EXAMPLES, _ATTACKERS, _POISON, _FORGERY = 17, 18, 19, 20


@dataclass(frozen=True)
class FederatedArm:
    """One arm with one seed: clients of a data set, a model, local training, and a mechanism.

    block: the most clients that are trained as one batch. measures: names of figures of the last model
    besides accuracy (scenarios.federated.measures).
    """

    arm: str
    seed: int
    rows: RowChoice
    clients: Clients
    model: ModelSection
    train: TrainSection
    mechanism: MechanismChoice
    block: int = 32
    attackers: Attackers = NOBODY
    measures: tuple[str, ...] = ()

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return self.train.rounds


@dataclass(frozen=True)
class ClientWork:
    """The work of training the clients of a cell; it can be sent to another process.

    dataset: the original rows; taught: the rows that clients train on, the same until they are `prepared`.
    """

    cell: FederatedArm
    model: nn.Module
    dataset: FederatedDataset
    taught: FederatedDataset
    parts: Parts
    mechanism: ServerMechanism

    @property
    def salt(self) -> int:
        """The salt of the arm's streams of noise, so that no two arms have the same noise."""
        return salt_of(self.cell.arm)

    @cached_property
    def start(self) -> Floats:
        """The initial model (d,)."""
        return read_vector(self.model, "*")

    @cached_property
    def width(self) -> int:
        """The length d + e of the vectors that travel: the model, and what the server tells besides."""
        return len(self.start) + len(self.mechanism.told(self.mechanism.start()))

    def kept_by(self, clients: Sequence[int], kept: Mapping[int, Floats]) -> Floats:
        """What each of `clients` remembers, (k, m); zeros for a client that is not in `kept` yet."""
        memory = np.zeros((len(clients), self.mechanism.client_memory), np.float32)
        for place, client in enumerate(clients):
            if client in kept:
                memory[place] = kept[client]
        return memory

    @property
    def training(self) -> LocalTraining:
        """The local training that the cell and its mechanism ask for; proximal terms of both add up."""
        plain, mechanism = training_of(self.cell.train), self.mechanism
        grad_clip = plain.grad_clip if mechanism.grad_clip is None else mechanism.grad_clip
        proximal_mu = plain.proximal_mu + mechanism.proximal
        return replace(plain, proximal_mu=proximal_mu, grad_clip=grad_clip)

    def order_seed(self, client: int, number: int) -> tuple[int, ...]:
        """The seed of the order of a client's rows in a round."""
        return (_ORDER, self.cell.seed, client, number)

    def upload_words(self, client: int, number: int) -> SeededWords:
        """The random words of a client's noise in a round: on its rows first, then on what it sends."""
        return SeededWords(np.random.default_rng([_UPLOAD, self.cell.seed, self.salt, client, number]))

    def example_words(self, client: int) -> SeededWords:
        """The random words of a client's noise on its rows."""
        return SeededWords(np.random.default_rng([_EXAMPLES, self.cell.seed, self.salt, client]))

    @cached_property
    def attackers(self) -> frozenset[int]:
        """The numbers of the dishonest clients, the same in all arms with the same number of clients."""
        rng = np.random.default_rng([_ATTACKERS, self.cell.seed])
        return self.cell.attackers.among(len(self.parts), rng)

    def poisoned(self, client: int, x: Floats, y: Labels) -> tuple[Floats, Labels]:
        """The rows x (n, ...) and labels y (n,) as an attacker changes them; an honest client keeps them."""
        if client not in self.attackers:
            return x, y
        return self.cell.attackers.poisoned(x, y, np.random.default_rng([_POISON, self.cell.seed, client]))

    def said(self, client: int, number: int, weights: Floats, start: Floats) -> Floats:
        """The weights (d,) that a client claims to have trained from `start` (d,) in a round."""
        if client not in self.attackers:
            return weights
        rng = np.random.default_rng([_FORGERY, self.cell.seed, client, number])
        return self.cell.attackers.forged(weights, start, rng)

    def blocks(self, chosen: Indices) -> list[Indices]:
        """Cut `chosen` into blocks of clients with similar numbers of rows."""
        rows = np.array([len(self.parts[client]) for client in chosen])
        ordered = chosen[np.argsort(-rows, kind="stable")]
        return np.array_split(ordered, max(1, -(-len(ordered) // self.cell.block)))


def client_work(cell: FederatedArm, dataset: FederatedDataset) -> ClientWork:
    """Divide the rows, initialise the model and make the mechanism of a cell. Raises ConfigError."""
    dataset = cell.rows.scaled(dataset)
    rows = cell.rows.chosen(dataset, np.random.default_rng([_ROWS, cell.seed]))
    parts = cell.clients.deal(dataset, rows, np.random.default_rng([_DEAL, cell.seed]))
    if not cell.train.plain:
        raise ConfigError(
            "train.optimizer, train.schedule, train.loss and train.parameters: clients of a server train all "
            "by plain 'sgd'"
        )
    model = build(cell.model, cell.seed, node_rows(dataset, parts[0]))
    mechanism = cell.mechanism.make(federation_of(cell, model, parts))
    return ClientWork(cell, model, dataset, dataset, parts, mechanism)


def federation_of(cell: FederatedArm, model: nn.Module, parts: Parts) -> Federation:
    """The federation that the cell's mechanism is made for."""
    sizes = tuple(prod(shape) for _, shape in shapes(model, "*"))
    return Federation(tuple(len(part) for part in parts), cell.rounds, sizes)


def node_rows(dataset: FederatedDataset, rows: NDArray[np.int64]) -> node_data.Dataset:
    """The data set of a node's trainer, for a client with these training `rows` (n,)."""
    arrays = (dataset.train_x[rows], dataset.train_y[rows], dataset.test_x, dataset.test_y)
    x, y, test_x, test_y = (torch.from_numpy(array) for array in arrays)
    return node_data.Dataset(x, y, test_x, test_y, "test", dataset.classes, dataset.description)


class Crew(Protocol):
    """The workers that train the clients of one cell; they also keep what each client remembers."""

    def uploads(self, number: int, given: Floats, chosen: Indices) -> Mapping[int, Floats]:
        """The vectors (d + e,) that `chosen` clients (k,) send in round `number`, from 1.

        given: (d + e,), the model from which they train and what the server tells them. A client whose node
        is gone is missing; a crew without real nodes loses no client.
        """
