"""What the swarm is compared with: each peer training alone, and one model trained on all shards pooled.

Both start from the swarm's initial model and use its optimiser settings for as many local epochs, with the
optimiser's state fresh every round as in the swarm. Each runs in a worker process and leaves one JSON file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from node.task.sections import Task
from scenarios.frame.work import Work, do_all, rounds_done
from scenarios.swarms.nodes import SwarmPlan
from scenarios.swarms.progress import Display

WORKERS = 2


@dataclass(frozen=True)
class Job:
    """One baseline. shards: the parts (of `parts`) whose rows it trains on; path: where its curve goes."""

    name: str
    task: Task
    shards: tuple[int, ...]
    parts: int
    rounds: int
    batch_seed: int
    path: Path

    @property
    def log(self) -> Path:
        """Where its process says a line a round."""
        return self.path.with_suffix(".log")

    @property
    def worker(self) -> str:
        """What runs it in a process of its own."""
        return "scenarios.engines.baseline_worker:train_baseline"


@dataclass(frozen=True)
class Curve:
    """Accuracy on the common test split after each round, first round first; rows it trained on.

    `guessing`: the accuracy of always naming the most frequent class of the test rows.
    """

    name: str
    rows: int
    accuracy: tuple[float, ...]
    guessing: float
    seconds: float

    @property
    def final(self) -> float:
        """The accuracy after the last round."""
        return self.accuracy[-1]


@dataclass(frozen=True)
class Baselines:
    """alone[i]: peer i on its own shard; pooled: one model on all of them."""

    alone: tuple[Curve, ...]
    pooled: Curve


def run_baselines(plan: SwarmPlan, display: Display) -> Baselines:
    """Train what a former run of the same plan has not left behind, two at a time. Raises UserError."""
    queue = jobs(plan)
    # The longest first: pooled is as much work as all the others together.
    missing = sorted((job for job in queue if not job.path.exists()), key=lambda job: -len(job.shards))
    work(missing, display)
    *alone, pooled = [_finished(job) for job in queue]
    return Baselines(tuple(alone), pooled)


def jobs(plan: SwarmPlan) -> tuple[Job, ...]:
    """One job for each peer alone, then the pooled one."""
    folder = plan.folder / "baselines"
    alone = [
        Job(
            f"alone {i}",
            plan.task,
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
    pooled = Job("pooled", plan.task, everyone, plan.peers, plan.rounds, seed, folder / "pooled.json")
    return (*alone, pooled)


def work(queue: Sequence[Work], display: Display) -> None:
    """Do all of it, two at a time in child processes. Raises UserError for one that fails."""
    in_all = sum(job.rounds for job in queue)
    do_all(queue, WORKERS, lambda: display.baselines(sum(rounds_done(job) for job in queue), in_all))


def _finished(job: Job) -> Curve:
    fields = json.loads(job.path.read_text())
    return Curve(**{**fields, "accuracy": tuple(fields["accuracy"])})
