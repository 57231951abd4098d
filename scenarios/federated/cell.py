"""Federated averaging with a server, replayed: a cell, and the round loop that every engine runs.

    chosen = sample ──▶ broadcast ──▶ crew: each trains, clips, noises, sends ──▶ combine ──▶ figure

The loop and the mechanism's hooks (mechanisms.servers.server) are the same everywhere; engines differ in
their crew: threads of one process, tasks of a cluster, or real nodes. All randomness of a replay follows from
the seed. Clients are dealt to blocks by a rule that looks at their rows only, and a block is trained by one
thread: the figures do not depend on how many threads or machines there are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import prod
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from mechanisms.mechanism import Protection
from mechanisms.noise.clipping import Floats, NotFinite
from mechanisms.noise.randomness import SeededWords, Words
from mechanisms.servers.server import Federation, Indices, Labels, ServerMechanism, Step
from node.data import dataset as node_data
from node.errors import ConfigError, UserError, reason, shown
from node.task.rules import read_section, shared_values
from node.task.sections import ModelSection, TrainSection
from node.training.build import build
from node.training.trainer import Trainer, read_vector, shapes
from scenarios.data.dataset import Dataset
from scenarios.data.partitions import Parts
from scenarios.federated.attackers import NOBODY, Attackers
from scenarios.federated.choices import Clients, MechanismChoice, Rows
from scenarios.federated.clients import LocalTraining, train_clients, training_of
from scenarios.federated.measures import measures_of
from scenarios.federated.preparation import check_attackers, prepared
from scenarios.frame.spec import Json
from scenarios.study.cells import Fact, Outcome, Room, digest_of, salt_of

# Streams of random numbers: [one of these, seed, ...], so that no two are the same.
_ROWS, _DEAL, _SAMPLE, _ORDER, _UPLOAD, _SERVER = 11, 12, 13, 14, 15, 16
_CHOSEN = "clients_per_round"
_EXAMPLES, _ATTACKERS, _POISON, _FORGERY = 17, 18, 19, 20


@dataclass(frozen=True)
class FederatedCell:
    """One arm with one seed: clients of a data set, a model, local training, and a mechanism.

    block: how many clients are trained as one batch, at most. measures: of the last model, beside accuracy
    (scenarios.federated.measures).
    """

    arm: str
    seed: int
    rows: Rows
    clients: Clients
    model: ModelSection
    train: TrainSection
    mechanism: MechanismChoice
    block: int = 32
    attackers: Attackers = NOBODY
    measures: tuple[str, ...] = ()

    @property
    def rounds(self) -> int:
        """How many figures it will give."""
        return self.train.rounds

    @property
    def data_sets(self) -> tuple[str, ...]:
        """The one of its rows."""
        return (self.rows.dataset,)

    def check(self, room: Room) -> None:
        """See Cell.check: rows are dealt out, model and mechanism are made, clients are sampled once."""
        work = client_work(self, room.dataset(self.rows.dataset, self.seed))
        check_attackers(work)
        try:
            work.mechanism.sample(len(work.parts), np.random.default_rng([_SAMPLE, self.seed]))
        except Exception as error:  # a user's mechanism may raise anything
            raise ConfigError(f"mechanism {shown(self.mechanism.path)}: {reason(error)}") from error

    def describe(self) -> Json:
        """All but the seed and the name."""
        described = {name: value for name, value in asdict(self).items() if name not in ("arm", "seed")}
        return {"kind": "federated", **described}

    def seeded(self, seed: int) -> FederatedCell:
        """The same arm with another seed."""
        return replace(self, seed=seed)

    def lasting(self, rounds: int) -> FederatedCell:
        """The same arm over so many rounds."""
        return self.changed({"train": {"rounds": rounds}})

    def among(self, peers: int) -> FederatedCell:
        """The same arm with so many clients, each with as many rows as before where rows are counted.

        Where all of them were in every round, all are again.
        """
        count, mechanism = self.clients.count, self.mechanism
        most = None if self.rows.most is None else self.rows.most * peers // count
        if mechanism.parameters.get(_CHOSEN) == count:
            mechanism = replace(mechanism, parameters={**mechanism.parameters, _CHOSEN: peers})
        rows, clients = replace(self.rows, most=most), replace(self.clients, count=peers)
        return replace(self, rows=rows, clients=clients, mechanism=mechanism)

    def changed(self, table: Mapping[str, Mapping[str, object]]) -> FederatedCell:
        """With keys of [train] and [model] set anew. Raises ConfigError."""
        foreign = [section for section in table if section not in ("train", "model")]
        if foreign:
            key = f"{foreign[0]}.{next(iter(table[foreign[0]]), '')}"
            raise ConfigError(f"--set {key}: this scenario does not have it; allowed: train.*, model.*")
        train = {**shared_values(self.train), **table.get("train", {})}
        model = {**shared_values(self.model), **table.get("model", {})}
        given = {name: value for name, value in train.items() if value is not None}
        return replace(
            self,
            train=read_section(TrainSection, "train", given),
            model=read_section(ModelSection, "model", model),
        )

    def replay(self, room: Room) -> Outcome:
        """In this process and with seeded noise, by the room's crew."""
        bare = client_work(self, room.dataset(self.rows.dataset, self.seed))
        work = prepared(bare, bare.example_words)
        words = SeededWords(np.random.default_rng([_SERVER, self.seed, work.salt]))
        with room.crew(work) as crew:
            return rounds_of(work, crew, words, room)


@dataclass(frozen=True)
class ClientWork:
    """All that training the clients of a cell takes; it can be sent to another process.

    dataset: the rows as they are; taught: as clients train on them, which is the same until they are
    `prepared`. salt: the arm's.
    """

    cell: FederatedCell
    model: nn.Module
    dataset: Dataset
    taught: Dataset
    parts: Parts
    mechanism: ServerMechanism

    @property
    def salt(self) -> int:
        """Of the streams of noise, so that no two arms have the same noise."""
        return salt_of(self.cell.arm)

    @cached_property
    def start(self) -> Floats:
        """The initial model (d,)."""
        return read_vector(self.model, "*")

    @property
    def training(self) -> LocalTraining:
        """Local training as the cell and its mechanism have it."""
        plain, mechanism = training_of(self.cell.train), self.mechanism
        grad_clip = plain.grad_clip if mechanism.grad_clip is None else mechanism.grad_clip
        return replace(plain, proximal_mu=mechanism.proximal, grad_clip=grad_clip)

    def order_seed(self, client: int, number: int) -> tuple[int, ...]:
        """What the order of a client's rows in a round follows from."""
        return (_ORDER, self.cell.seed, client, number)

    def upload_words(self, client: int, number: int) -> SeededWords:
        """What a client's noise in a round follows from."""
        return SeededWords(np.random.default_rng([_UPLOAD, self.cell.seed, self.salt, client, number]))

    def example_words(self, client: int) -> SeededWords:
        """What a client's noise on its rows follows from."""
        return SeededWords(np.random.default_rng([_EXAMPLES, self.cell.seed, self.salt, client]))

    @cached_property
    def attackers(self) -> frozenset[int]:
        """The numbers of the dishonest clients: the same in every arm with as many clients."""
        rng = np.random.default_rng([_ATTACKERS, self.cell.seed])
        return self.cell.attackers.among(len(self.parts), rng)

    def poisoned(self, client: int, x: Floats, y: Labels) -> tuple[Floats, Labels]:
        """What a client first makes of its rows x (n, ...) and labels y (n,): nothing, where it is honest."""
        if client not in self.attackers:
            return x, y
        return self.cell.attackers.poisoned(x, y, np.random.default_rng([_POISON, self.cell.seed, client]))

    def said(self, client: int, number: int, weights: Floats, start: Floats) -> Floats:
        """The weights (d,) that a client says it has trained from `start` (d,) in a round."""
        if client not in self.attackers:
            return weights
        rng = np.random.default_rng([_FORGERY, self.cell.seed, client, number])
        return self.cell.attackers.forged(weights, start, rng)

    def blocks(self, chosen: Indices) -> list[Indices]:
        """`chosen` in blocks of clients of about equally many rows."""
        rows = np.array([len(self.parts[client]) for client in chosen])
        ordered = chosen[np.argsort(-rows, kind="stable")]
        return np.array_split(ordered, max(1, -(-len(ordered) // self.cell.block)))


def client_work(cell: FederatedCell, dataset: Dataset) -> ClientWork:
    """The work of a cell: rows dealt out, model initialised, mechanism made. Raises ConfigError."""
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


def federation_of(cell: FederatedCell, model: nn.Module, parts: Parts) -> Federation:
    """What the cell's mechanism is made for."""
    sizes = tuple(prod(shape) for _, shape in shapes(model, "*"))
    return Federation(tuple(len(part) for part in parts), cell.rounds, sizes)


def node_rows(dataset: Dataset, rows: NDArray[np.int64]) -> node_data.Dataset:
    """What a node's trainer needs of a client with these training `rows` (n,)."""
    arrays = (dataset.train_x[rows], dataset.train_y[rows], dataset.test_x, dataset.test_y)
    x, y, test_x, test_y = (torch.from_numpy(array) for array in arrays)
    return node_data.Dataset(x, y, test_x, test_y, "test", dataset.classes, dataset.description)


# -- the round loop ----------------------------------------------------------------------------------------


class Crew(Protocol):
    """Who trains the clients of one cell."""

    def uploads(self, number: int, model: Floats, chosen: Indices) -> Mapping[int, Floats]:
        """What each of `chosen` (k,) sends, (d,), after training `model` (d,) in round `number`, from 1.

        A client whose node is gone is missing; a crew without real nodes loses nobody.
        """


def rounds_of(work: ClientWork, crew: Crew, words: Words, room: Room) -> Outcome:
    """All rounds of a cell. Raises UserError where training leaves the finite numbers."""
    begun, mechanism, parts = time.perf_counter(), work.mechanism, work.parts
    judge = Trainer(work.model, work.cell.train, node_rows(work.dataset, parts[0][:1]), 0, None, words)
    rng = np.random.default_rng([_SAMPLE, work.cell.seed])
    model, figures, missing = work.start, [], 0
    for number in range(1, work.cell.rounds + 1):
        chosen = mechanism.sample(len(parts), rng)
        model = mechanism.broadcast(model, words)
        sent = _sent(crew, number, model, chosen)
        missing += len(chosen) - len(sent)
        rows = [len(parts[client]) for client in sent]
        model = mechanism.combine(model, list(sent.values()), rows, words)
        figures.append(judge.evaluate(model).accuracy)
        room.say(number, figures[-1])
    counted: dict[str, Fact] = {"missing uploads": missing, "model sha256": digest_of(model)}
    measured = measures_of(work, model)
    facts = {**protection_facts(mechanism), **mechanism.figures, **measured, **counted}
    return Outcome(tuple(figures), facts, time.perf_counter() - begun)


def _sent(crew: Crew, number: int, model: Floats, chosen: Indices) -> Mapping[int, Floats]:
    if not len(chosen):
        return {}
    with suppress(NotFinite):
        sent = crew.uploads(number, model, chosen)
        if all(np.isfinite(upload).all() for upload in sent.values()):
            return sent
    raise UserError(
        f"training diverged in round {number}: a client's model is no longer finite; lower "
        "train.learning_rate or set train.grad_clip"
    )


def train_block(work: ClientWork, number: int, model: Floats, members: Indices) -> list[Floats]:
    """What each of `members` (k,) sends after a round's training from `model` (d,), as one batch."""
    mechanism, training, clients = work.mechanism, work.training, members.tolist()
    parts = [work.parts[client] for client in clients]
    seeds = [work.order_seed(client, number) for client in clients]
    dataset, loss = work.taught, functional.cross_entropy

    def after_batch(weights: torch.Tensor, start: torch.Tensor, places: Indices) -> torch.Tensor:
        return mechanism.after_batch(weights, start, Step(members[places], training.learning_rate))

    trained, _ = train_clients(
        model=work.model,
        start=model,
        rows_of_clients=parts,
        x=dataset.train_x,
        y=dataset.train_y,
        loss=loss,
        training=training,
        seeds=seeds,
        after_batch=after_batch,
        block=len(members),
    )
    return [
        upload_of(work, client, number, model, weights, work.upload_words(client, number))
        for client, weights in zip(clients, trained, strict=True)
    ]


def upload_of(
    work: ClientWork, client: int, number: int, model: Floats, weights: Floats, words: Words
) -> Floats:
    """What a client sends (d,) in a round whose `weights` (d,) were trained from `model` (d,)."""
    said = work.said(client, number, weights, model)
    return work.mechanism.upload(said, model, len(work.parts[client]), words)


def in_order(
    chosen: Indices, blocks: Sequence[Indices], sent: Sequence[Sequence[Floats]]
) -> dict[int, Floats]:
    """What was sent, block by block, in the order of `chosen`."""
    by_client = {
        int(client): upload
        for members, uploads in zip(blocks, sent, strict=True)
        for client, upload in zip(members, uploads, strict=True)
    }
    return {int(client): by_client[int(client)] for client in chosen}


def protection_facts(protection: Protection) -> dict[str, Fact]:
    """What a mechanism says of itself, as an outcome has it; epsilon is None where it is infinite."""
    guarantee = protection.guarantee
    if guarantee is None:
        return {"epsilon": None, "stated": None, "delta": None, "unit": None, "protects": protection.protects}
    epsilon, stated = (
        value if math.isfinite(value) else None for value in (guarantee.epsilon, guarantee.stated)
    )
    return {
        "epsilon": epsilon,
        "stated": stated,
        "delta": guarantee.delta,
        "unit": guarantee.unit.words,
        "protects": protection.protects,
        "outside": guarantee.outside,
    }
