"""Swarms without a server as cells of a sweep: replayed, or run by real nodes.

The task defines everything but the number of peers: data, model, training, the mechanism of [privacy].
Replays and real nodes have the same initial model, test rows, parts and order of rows; without noise their
results are the same.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from mechanisms.accounting.ledger import Relation, Unit
from mechanisms.mechanism import Mechanism
from node.data.dataset import Dataset, load_dataset
from node.runtime.contributions.loss_gate import check_loss_gate
from node.runtime.privacy.budget import make_mechanism
from node.runtime.record.figures import Record
from node.task.load import read_task
from node.task.rules import key_name
from node.task.sections import Task
from node.training.build import build_model
from node.training.trainer import shapes
from scenarios.frame.digests import digest_of, salt_of
from scenarios.frame.spec import Json
from scenarios.frame.work import Say
from scenarios.study.cells import METRIC, NO_EPSILON, BaseCell, Fact, Outcome, Room, refuse_seed
from scenarios.study.threads import one_thread
from scenarios.swarms.history import amount, most_spent
from scenarios.swarms.nodes import PeerRun, SwarmPlan, Tell, checked_peers, run_swarm
from scenarios.swarms.progress import PeerProgress
from scenarios.swarms.replay import Swarm, datasets_of
from scenarios.swarms.reported import (
    RoundLog,
    Series,
    SumCost,
    measured_facts,
    measured_series,
    model_series,
    peer_facts,
    reported,
)
from scenarios.swarms.results import lowest_by_round


@dataclass(frozen=True)
class SwarmCell(BaseCell):
    """One arm with one seed, which is `task.seed`: `peers` peers learn `task` together."""

    arm: str
    task: Task
    peers: int
    kind: ClassVar[str] = "swarm"

    @property
    def seed(self) -> int:
        """The seed of the task."""
        return self.task.task.seed

    @property
    def rounds(self) -> int:
        """The number of rounds, each with a figure."""
        return self.task.train.rounds

    @property
    def data_sets(self) -> tuple[str, ...]:
        """Empty: a task loads its own data, not through the room."""
        return ()

    def check(self, room: Room) -> None:
        """Raise ConfigError unless the first peer's data, model, mechanism and gate can be made."""
        check_loss_gate(self.task, first_mechanism(self))

    def describe(self) -> Json:
        """The cell as JSON, without its seed and name."""
        described = asdict(self.task)
        del described["task"]["seed"]
        return {"kind": self.kind, "peers": self.peers, **described}

    def seeded(self, seed: int) -> Self:
        """The same arm with another seed."""
        return replace(self, task=replace(self.task, task=replace(self.task.task, seed=seed)))

    def among(self, peers: int) -> Self:
        """The same arm with `peers` peers. Raises ConfigError."""
        return replace(self, peers=checked_peers(self.task, peers))

    def changed(self, table: Mapping[str, Mapping[str, object]]) -> Self:
        """The same arm with new values for any keys of the task. Raises ConfigError."""
        refuse_seed(table)
        return replace(self, task=changed_task(self.task, table))

    def replay(self, room: Room) -> Outcome:
        """Replay the swarm in this process, with noise from the seed."""
        begun, figures, log = time.perf_counter(), [], RoundLog()
        with one_thread():
            datasets = datasets_of(self.task, self.peers)
            swarm = Swarm(self.task, datasets, salt_of(self.arm))
            for number in range(1, self.rounds + 1):
                figures.append(swarm.round(number))
                log.note(swarm)
                room.say(number, figures[-1])
            common, series = reported(swarm, datasets, log, SumCost(self.task, swarm.words))
        last: dict[str, Fact] = {name: swarm.mean_of(name) for name in ("radius", "noise_std")}
        facts = {
            **privacy_facts(swarm.ledger, swarm.protects),
            **last,
            "model sha256": digest_of(swarm.base),
            **common,
            METRIC: _metric(self.task, common),
        }
        return Outcome(tuple(figures), facts, time.perf_counter() - begun, series)


def changed_task(task: Task, table: Mapping[str, Mapping[str, object]]) -> Task:
    """`task` with new values for keys, by section. Raises ConfigError."""
    own: dict[str, Any] = {entry.name: _values(getattr(task, entry.name)) for entry in fields(task)}
    foreign = {name: values for name, values in table.items() if name not in own}
    return read_task({**{name: {**own[name], **table.get(name, {})} for name in own}, **foreign})


def _values(section: Any) -> dict[str, object]:
    """The values of a section by their names in TOML, without those that are not set."""
    values = {key_name(entry): getattr(section, entry.name) for entry in fields(section)}
    return {name: value for name, value in values.items() if value is not None}


def privacy_facts(ledger: Mapping[str, Any] | None, protects: str) -> dict[str, Fact]:
    """The facts of an outcome about privacy, from a ledger as in summary.json; an infinite epsilon is None.

    `protects`: the sentence about the protection if there is no ledger.
    """
    if ledger is None:
        return {**NO_EPSILON, "protects": protects}
    unit = Unit(ledger["unit"], Relation(ledger["neighbours"]), ledger["norm"])
    spent = amount(ledger, "epsilon_spent")
    return {
        "epsilon": spent if math.isfinite(spent) else None,
        "stated": amount(ledger, "epsilon_stated"),
        "delta": amount(ledger, "delta"),
        "unit": unit.words,
        "protects": ledger["protects"],
        "outside": ledger["outside"],
    }


# -- real nodes --------------------------------------------------------------------------------------------


def run_nodes(cell: SwarmCell, folder: Path, say: Say) -> Outcome:
    """Run the swarm by real node processes on loopback, which write to `folder`. Raises UserError.

    The figure of a round is the lowest accuracy of all peers in it, or the figure before if there were none.
    Epsilon is that of the peer that has spent the most. Noise comes from the system's generator.
    """
    begun = time.perf_counter()
    plan = SwarmPlan(cell.task, cell.peers, cell.rounds, folder)
    peers = run_swarm(plan, each_round(say))
    ledger = most_spent([peer.summary.privacy for peer in peers])
    common, series = common_facts(plan, peers, datasets_of(plan.task, plan.peers))
    protects = first_mechanism(cell).protects
    facts = {**privacy_facts(ledger, protects), **common, METRIC: _metric(cell.task, common)}
    figures = lowest_figures(peers, cell.rounds, accuracy_of)
    return Outcome(figures, facts, time.perf_counter() - begun, series)


def common_facts(
    plan: SwarmPlan, peers: Sequence[PeerRun], datasets: Sequence[Dataset]
) -> tuple[dict[str, Fact], Series]:
    """The facts and series about partition, peers and bytes of a swarm whose peers have the rows `datasets`.

    The model is the one that the first peer left. Raises ConfigError.
    """
    series = {**measured_series(peers, plan.rounds), **model_series(plan.peer_folder(0), datasets[0])}
    return {**measured_facts(peers), **peer_facts(datasets, series)}, series


def _metric(task: Task, common: Mapping[str, Fact]) -> Fact:
    """The metric of the figures: of numbers the mean absolute error if the task asks for it alone."""
    wanted, usual = task.train.metrics, common[METRIC]
    return "mae" if usual == "r2" and wanted is not None and "r2" not in wanted else usual


def lowest_figures(
    peers: Sequence[PeerRun], rounds: int, figure: Callable[[Record], float | None]
) -> tuple[float, ...]:
    """For each round the lowest figure of the peers that were in it; if there were none, the one before."""
    lowest, figures = lowest_by_round(peers, figure), [0.0]
    for number in range(1, rounds + 1):
        figures.append(lowest.get(number, figures[-1]))
    return tuple(figures[1:])


def accuracy_of(entry: Record) -> float | None:
    """The accuracy after a round; for numbers the headline."""
    return entry.value if entry.accuracy is None else entry.accuracy


def first_mechanism(cell: SwarmCell) -> Mechanism:
    """The mechanism of the first peer."""
    dataset = load_dataset(cell.task, None, (0, cell.peers))
    named = shapes(build_model(cell.task, dataset), cell.task.train.parameters)
    return make_mechanism(cell.task, named, len(dataset.train_y))


def each_round(say: Say) -> Tell:
    """Says each round once, with the lowest accuracy, when all peers have ended it."""
    said = 0

    def tell(peers: Sequence[PeerProgress]) -> None:
        nonlocal said
        ended = min(peer.round for peer in peers)
        if ended > said:
            said = ended
            say(ended, min(peer.accuracy or 0.0 for peer in peers))

    return tell
