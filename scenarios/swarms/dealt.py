"""Cells whose rows come from a published data set: peers that it is dealt to, or a server that has it all.

    data set ──▶ features of a frozen body, once ──▶ dealt evenly at random ──▶ peers, or one server
                                                                          └──▶ figures on the common test rows

The task names no data of its own. Replays run the node's trainers and mechanisms; with shared noise a server
takes the same steps on all rows, with noise for one.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from node.runtime.contributions.loss_gate import check_loss_gate
from node.runtime.privacy.budget import make_mechanism
from node.system.errors import ConfigError
from node.task.load import read_task
from node.task.sections import Task
from node.task.shared_noise_keys import SHARED_NOISE_KEYS, is_distributed
from node.training.build import build_model
from node.training.trainer import Evaluation, shapes
from scenarios.clients.work import node_rows
from scenarios.data.dataset import FederatedDataset
from scenarios.data.partitions import iid
from scenarios.frame.digests import digest_of, salt_of
from scenarios.frame.spec import Json
from scenarios.study.cells import METRIC, BaseCell, Fact, Outcome, Room, refuse_seed
from scenarios.study.threads import one_thread
from scenarios.swarms.cells import privacy_facts
from scenarios.swarms.features import with_features
from scenarios.swarms.nodes import checked_peers
from scenarios.swarms.replay import Swarm
from scenarios.swarms.reported import RoundLog, SumCost, reported
from scenarios.swarms.steps import StepSwarm

Sections = Mapping[str, Mapping[str, Any]]
Scale = tuple[float, float]
"""A mean and a standard deviation; rows become (value - mean) / std."""
AS_THEY_ARE: Scale = (0.0, 1.0)

ACCURACY, AUC = "accuracy", "auc"
"""What a figure measures on the test rows."""
HONEST, FACTOR, GRADIENT_S = "honest others", "noise variance over a server's", "gradient s a peer and step"
STEP_S, STEP_BYTES, FAILED = "s a step", "bytes a peer and step", "failed steps"
WORDS = "parameters"
"""Names of facts. The seconds and bytes of a step are known where real nodes ran."""

_EPSILON_WITH = "epsilon with "
_SERVER_PROTECTS = (
    "a server that sees all rows adds the noise: epsilon bounds what anybody else learns about whether any "
    "one record is among them"
)
_DEAL = 43  # a stream of random numbers: [this, seed]
_LOCAL_KEYS = (("train", "epochs"), ("train", "batch_size"), ("train", "rounds"), ("train", "grad_clip"))
"""Keys that training by shared steps does not have."""


@dataclass(frozen=True)
class Dealt(BaseCell):
    """A cell with the rows of the data set `rows`. `table`: the task as in TOML, without data and seed.

    `measure`: ACCURACY or AUC. `scale`: of the rows; constants that do not depend on them. Among
    whom the rows are divided is the subclass's.
    """

    arm: str
    table: Sections
    rows: str
    measure: str
    seed: int = 0
    scale: Scale = AS_THEY_ARE

    @cached_property
    def task(self) -> Task:
        """The task with its defaults. Raises ConfigError."""
        return task_of(self.table, self.seed)

    @property
    def rounds(self) -> int:
        """The number of rounds, each with a figure."""
        return self.task.train.rounds

    @property
    def data_sets(self) -> tuple[str, ...]:
        """The data set that is dealt."""
        return (self.rows,)

    @property
    @abstractmethod
    def parties(self) -> int:
        """Among how many the rows are divided."""

    def dataset(self, room: Room) -> FederatedDataset:
        """The data set with the cell's scale. Raises ConfigError."""
        return scaled(room.dataset(self.rows, self.seed), self.scale)

    def check(self, room: Room) -> None:
        """Raise ConfigError unless data, model and mechanism of the first party can be made."""
        task, dataset = self.task, self.dataset(room)
        if len(dataset.train_y) < self.parties:
            raise ConfigError(
                f"data set {self.rows} has {len(dataset.train_y)} training rows for {self.parties} peers; "
                "take fewer peers"
            )
        first = node_rows(dataset, parts_of(dataset, self.parties, self.seed)[0])
        model = build_model(task, first)
        mechanism = make_mechanism(task, shapes(model, task.train.parameters), len(first.train_y))
        check_loss_gate(task, mechanism)

    def describe(self) -> Json:
        """The cell as JSON, without its seed and name."""
        described = asdict(self.task)
        del described["task"]["seed"]
        kind = type(self).__name__
        return {
            "kind": kind,
            "rows": self.rows,
            "scale": list(self.scale),
            "measure": self.measure,
            "parties": self.parties,
            **described,
        }

    def lasting(self, rounds: int) -> Self:
        """The same arm over `rounds` rounds, with a budget for these; steps stay as many a round."""
        if not is_distributed(self.task):
            return super().lasting(rounds)
        every = self.task.train.report_every or 1
        return self.changed({"train": {"steps": rounds * every, "report_every": every}})

    def changed(self, table: Sections) -> Self:
        """The same arm with new values for keys of its task, those left out that it does not have.

        Keys of shared steps go to arms with shared noise, keys of local training to the others. Raises
        ConfigError.
        """
        refuse_seed(table)
        foreign = _LOCAL_KEYS if is_distributed(self.task) else SHARED_NOISE_KEYS
        fitting = {
            section: {name: value for name, value in values.items() if (section, name) not in foreign}
            for section, values in table.items()
        }
        merged = {name: {**self.table.get(name, {}), **fitting.get(name, {})} for name in fitting}
        whole = {**self.table, **merged}
        task_of(whole, self.seed)
        return replace(self, table=whole)

    def replay(self, room: Room) -> Outcome:
        """Replay the cell in this process, with noise from the seed. Raises UserError."""
        begun, figures, log = time.perf_counter(), [], RoundLog()
        with one_thread():
            task, dataset = with_features(self.task, self.dataset(room))
            parts = parts_of(dataset, self.parties, self.seed)
            rows = [node_rows(dataset, part) for part in parts]
            kind = StepSwarm if is_distributed(task) else Swarm
            swarm = kind(task, rows, salt_of(self.arm))
            for number in range(1, self.rounds + 1):
                swarm.round(number)
                figures.append(measured(swarm.evaluated(), self.measure))
                log.note(swarm)
                room.say(number, figures[-1])
            common, series = reported(swarm, rows, log, SumCost(task, swarm.words))
        facts: dict[str, Fact] = {
            **privacy_facts(swarm.ledger, swarm.protects),
            **honest_facts(swarm.ledger),
            **(self._step_facts(swarm) if isinstance(swarm, StepSwarm) else {}),
            "model sha256": digest_of(swarm.base),
            **common,
            METRIC: self.measure,
        }
        return Outcome(tuple(figures), facts, time.perf_counter() - begun, series)

    def _step_facts(self, swarm: StepSwarm) -> dict[str, Fact]:
        shared, rows = swarm.rules.mechanism.shared, self.parties
        return {
            HONEST: shared.honest if rows > 1 else None,
            FACTOR: rows / (shared.honest + 1) if rows > 1 else 1.0,
            GRADIENT_S: swarm.seconds,
            WORDS: shared.size,
        }


@dataclass(frozen=True)
class PeersCell(Dealt):
    """`peers` peers with equal parts of the rows learn together."""

    peers: int = 5

    @property
    def parties(self) -> int:
        """The number of peers."""
        return self.peers

    def among(self, peers: int) -> PeersCell:
        """The same arm with `peers` peers. Raises ConfigError."""
        grown = self
        if is_distributed(self.task):
            grown = self.changed({"aggregation": {"min_participants": peers}})
        return replace(grown, peers=checked_peers(grown.task, peers))


@dataclass(frozen=True)
class ServerCell(Dealt):
    """A trusted server has all rows. With shared noise it takes the same steps with the noise of one."""

    @property
    def parties(self) -> int:
        """One."""
        return 1

    def among(self, peers: int) -> ServerCell:
        """The same arm: a server has no peers."""
        return self

    def replay(self, room: Room) -> Outcome:
        """Replay the cell; what is said about its protection is true of a server. Raises UserError."""
        found = super().replay(room)
        protects = _SERVER_PROTECTS if is_distributed(self.task) else "nothing: a server sees all rows"
        by_others = {name: None for name in found.facts if name.startswith(_EPSILON_WITH)}
        return replace(found, facts={**found.facts, **by_others, "protects": protects})


def task_of(table: Sections, seed: int) -> Task:
    """The task that `table` describes, with this seed. Raises ConfigError."""
    return read_task({**table, "task": {**table.get("task", {}), "seed": seed}})


def scaled(dataset: FederatedDataset, scale: Scale) -> FederatedDataset:
    """The rows (value - mean) / std, those for tests too."""
    if scale == AS_THEY_ARE:
        return dataset
    mean, std = np.float32(scale[0]), np.float32(scale[1])
    return replace(dataset, train_x=(dataset.train_x - mean) / std, test_x=(dataset.test_x - mean) / std)


def parts_of(dataset: FederatedDataset, parties: int, seed: int) -> list[np.ndarray]:
    """The training row numbers of each party: equal parts, drawn at random."""
    if parties == 1:
        return [np.arange(len(dataset.train_y))]
    return list(iid(dataset.train_y, parties, np.random.default_rng([_DEAL, seed])))


def measured(evaluation: Evaluation, measure: str) -> float:
    """A figure of an evaluation; NaN is never returned: an undefined AUC counts as 0."""
    if measure == ACCURACY:
        return evaluation.score
    return evaluation.metrics.get(measure) or 0.0


def honest_facts(ledger: Mapping[str, Any] | None) -> dict[str, Fact]:
    """The epsilon by the number of honest others, for a ledger with shared noise; {} for another one."""
    found = {} if ledger is None else ledger.get("epsilon_by_honest", {})
    return {with_honest(int(others)): value for others, value in found.items()}


def with_honest(others: int) -> str:
    """The name of the fact that holds epsilon if so many of the others are honest."""
    return f"{_EPSILON_WITH}{others} honest others"
