"""The base of cells with attacks: one figure, a model and its training, and a node's mechanism."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from torch import nn
from torch.nn import functional

from mechanisms.mechanism import Mechanism
from mechanisms.noise.clipping import Floats
from mechanisms.noise.randomness import Words
from node.data.partition import RowNumbers
from node.runtime.privacy.budget import make_mechanism
from node.system.errors import ConfigError
from node.task.sections import (
    AggregationSection,
    AgreementSection,
    DataSection,
    ModelSection,
    PrivacySection,
    Task,
    TaskSection,
    TrainSection,
)
from node.task.statistics import StatisticsSection
from node.training.build import build
from node.training.gradient_steps import steps_by
from node.training.trainer import Trainer, read_vector, shapes, write_vector
from scenarios.clients.training import train_clients, training_of
from scenarios.clients.work import node_rows
from scenarios.data.dataset import FederatedDataset
from scenarios.study.cells import BaseCell

_BLOCK = 32


@dataclass(frozen=True)
class AttackCell(BaseCell):
    """One arm with one seed: an attack on a model that is trained by the settings in `train`.

    `privacy` is the mechanism of a node, on its training or its updates. `train.rounds` is 1, and epsilon is
    for this round.
    """

    arm: str
    seed: int
    model: ModelSection
    train: TrainSection
    privacy: PrivacySection

    dataset: ClassVar[str]

    @property
    def rounds(self) -> int:
        """1: an attack has one figure."""
        return 1

    @property
    def data_sets(self) -> tuple[str, ...]:
        """The data set that the attack uses."""
        return (self.dataset,)

    def lasting(self, rounds: int) -> Self:
        """Raise ConfigError: an attack has one round."""
        raise ConfigError(f"--rounds {rounds}: attacks are on one round; leave it out")

    def among(self, peers: int) -> Self:
        """Raise ConfigError: arms differ in the number of updates in a sum."""
        raise ConfigError(f"--peers {peers}: each arm has its own number of updates; choose scenario.arms")

    def changed(self, table: Mapping[str, Mapping[str, object]]) -> Self:
        """Raise ConfigError: arms differ in their training."""
        section = next(iter(table))
        key = f"{section}.{next(iter(table[section]), '')}"
        raise ConfigError(f"--set {key}: each arm has its own model and training; allowed: scenario.*")

    def built(self, dataset: FederatedDataset) -> nn.Module:
        """The model with its initial weights, for rows as those of `dataset`."""
        return build(self.model, self.seed, node_rows(dataset, np.arange(1)))

    def mechanism(self, model: nn.Module, rows: int) -> Mechanism:
        """The node's mechanism for one round on `rows` rows. Raises ConfigError."""
        task = Task(
            TaskSection("attacks", self.seed),
            self.model,
            DataSection(),
            self.train,
            self.privacy,
            AggregationSection(),
            AgreementSection(),
            StatisticsSection(),
        )
        return make_mechanism(task, shapes(model, "*"), rows)

    def offered(
        self,
        dataset: FederatedDataset,
        model: nn.Module,
        parts: Sequence[RowNumbers],
        mechanism: Mechanism,
        words: Words,
    ) -> Floats:
        """Return what nodes with `parts` of the rows offer (k, d) after a round, as the mechanism has it."""
        start = read_vector(model, "*")
        trained = self.trained(dataset, model, start, parts, mechanism, words)
        return np.stack([mechanism.offer(vector - start, (), words).vector for vector in trained])

    def trained(
        self,
        dataset: FederatedDataset,
        model: nn.Module,
        start: Floats,
        parts: Sequence[RowNumbers],
        mechanism: Mechanism,
        words: Words,
    ) -> Sequence[Floats]:
        """Return the models (d,) trained from `start` (d,), one on each of `parts`.

        A mechanism with a gradient of its own computes every step, as it does in a node.
        """
        if mechanism.gradient is None:
            trained, _ = train_clients(
                model=model,
                start=start,
                rows_of_clients=parts,
                x=dataset.train_x,
                y=dataset.train_y,
                loss=functional.cross_entropy,
                training=training_of(self.train),
                seeds=[(self.seed, number) for number in range(len(parts))],
                after_batch=None,
                block=_BLOCK,
            )
            return list(trained)
        vectors = []
        for number, part in enumerate(parts):
            rows, seed = node_rows(dataset, np.asarray(part, np.int64)), (self.seed, number)
            trainer = Trainer(model, self.train, rows, seed, steps_by(mechanism.gradient, words))
            vectors.append(trainer.train(start, 1, threading.Event()).vector)
            write_vector(model, start, "*")
        return vectors
