"""The baselines of a swarm: each peer training alone, and one model trained on all shards pooled.

Both start from the swarm's initial model and train for as many local epochs with its optimiser settings, with
a fresh optimiser state in every round, as in the swarm. Each runs in a worker process and writes a JSON file.

A replay is the same swarm under another privacy mechanism, without a network: training, offers, and their
mean. The real peers' curve is compared with it (scenarios.swarms.replay).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from node.task.sections import Task
from scenarios.frame.work import Work, do_all, rounds_done
from scenarios.swarms.nodes import SwarmPlan
from scenarios.swarms.progress import Display

WORKERS = 2

COMPARED = ("dp-sgd", "aldp", "ldp")


@dataclass(frozen=True)
class Job:
    """One baseline. shards: the parts (of `parts`) whose rows it trains on; path: the file of its curve."""

    name: str
    task: Task
    shards: tuple[int, ...]
    parts: int
    rounds: int
    batch_seed: int
    path: Path

    @property
    def log(self) -> Path:
        """The log, with a line per round."""
        return self.path.with_suffix(".log")

    @property
    def worker(self) -> str:
        """The name of the function that runs the job in a child process."""
        return "scenarios.engines.baseline_worker:train_baseline"


@dataclass(frozen=True)
class Curve:
    """The headline metric on the common test split after each round, and the number of training rows.

    `guessing`: what the best constant answer reaches on the test rows. `metric`: its name.
    """

    name: str
    rows: int
    values: tuple[float, ...]
    guessing: float
    seconds: float
    metric: str = "accuracy"

    @property
    def final(self) -> float:
        """The value after the last round."""
        return self.values[-1]


@dataclass(frozen=True)
class Baselines:
    """alone[i]: peer i on its own shard; pooled: one model on all shards."""

    alone: tuple[Curve, ...]
    pooled: Curve


def run_baselines(plan: SwarmPlan, display: Display, do: Do) -> Baselines:
    """Train the baselines that an earlier run of the same plan has not finished. Raises UserError."""
    queue = jobs(plan)
    # The longest first: the pooled baseline is as much work as all others together.
    missing = sorted((job for job in queue if not job.path.exists()), key=lambda job: -len(job.shards))
    do(missing, display)
    *alone, pooled = [_finished(job) for job in queue]
    return Baselines(tuple(alone), pooled)


def jobs(plan: SwarmPlan) -> tuple[Job, ...]:
    """One job for each peer alone, then the pooled one. None has a proximal term."""
    folder = plan.folder / "baselines"
    task = replace(plan.task, train=replace(plan.task.train, proximal=0.0))
    alone = [
        Job(
            f"alone {i}",
            task,
            (i,),
            plan.peers,
            plan.rounds,
            plan.batch_seed(i),
            folder / f"alone-{i}.json",
        )
        for i in range(plan.peers)
    ]
    everyone = tuple(range(plan.peers))
    seed = plan.batch_seed(0)
    pooled = Job("pooled", task, everyone, plan.peers, plan.rounds, seed, folder / "pooled.json")
    return (*alone, pooled)


def work(queue: Sequence[Work], display: Display) -> None:
    """Do all work, two jobs at a time, in child processes. Raises UserError for a job that fails."""
    in_all = sum(job.rounds for job in queue)
    do_all(queue, WORKERS, lambda: display.baselines(sum(rounds_done(job) for job in queue), in_all))


def _finished(job: Job) -> Curve:
    fields = json.loads(job.path.read_text())
    return Curve(**{**fields, "values": tuple(fields["values"])})


@dataclass(frozen=True)
class Replay:
    """One mechanism on all parts; path: the file of the curve."""

    task: Task
    peers: int
    rounds: int
    path: Path

    @property
    def name(self) -> str:
        """The name of the mechanism."""
        return self.task.privacy.mechanism

    @property
    def log(self) -> Path:
        """The log, with a line per round."""
        return self.path.with_suffix(".log")

    @property
    def worker(self) -> str:
        """The name of the function that runs the job in a child process."""
        return "scenarios.engines.replay_worker:run_replay"


@dataclass(frozen=True)
class PrivateCurve:
    """After each round, the base's headline metric on the test split and the largest epsilon of any peer."""

    mechanism: str
    values: tuple[float, ...]
    epsilon: tuple[float, ...]
    privacy: dict[str, object]
    """The ledger of the peer that has spent the most, as in summary.json."""

    @property
    def final(self) -> float:
        """The value after the last round."""
        return self.values[-1]


Do = Callable[[Sequence[Job] | Sequence[Replay], Display], None]
"""Does all work and stores the results: `work`, or another engine's way. Raises UserError."""


def run_replays(plan: SwarmPlan, chosen: str, display: Display, do: Do) -> tuple[PrivateCurve, ...]:
    """The curves of the mechanisms that the real peers did not run; empty without privacy.

    `chosen`: the mechanism that they did run.
    """
    queue = replays(plan, chosen)
    do([job for job in queue if not job.path.exists()], display)
    return tuple(_read(job.path) for job in queue)


def replays(plan: SwarmPlan, chosen: str) -> tuple[Replay, ...]:
    """One job for each mechanism to compare `chosen` with; empty without privacy."""
    if chosen == "none":
        return ()
    return tuple(
        Replay(_with(plan.task, name), plan.peers, plan.rounds, plan.folder / "baselines" / f"{name}.json")
        for name in COMPARED
        if name != chosen
    )


def _with(task: Task, mechanism: str) -> Task:
    """The task with another mechanism, exact and all covered, and no gate, as not all mechanisms allow one.

    All other settings stay the same.
    """
    privacy = replace(
        task.privacy, mechanism=mechanism, calibration="exact", window_source=None, public_radius=False
    )
    return replace(task, privacy=privacy, aggregation=replace(task.aggregation, loss_gate=None))


def _read(path: Path) -> PrivateCurve:
    fields = json.loads(path.read_text())
    return PrivateCurve(
        fields["mechanism"], tuple(fields["values"]), tuple(fields["epsilon"]), fields["privacy"]
    )
