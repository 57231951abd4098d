"""What a model learns from the rows of one party or of several, by the jobs and steps that nodes have.

Each learns by the task that node.init proposes for it.

    linear, network                   updates are averaged
    additive, additive-trees, trees   exact jobs; the second is the product's default: trees after curves
    linear, additive with privacy     shared steps, of an additive model after noised histograms for its cells

One party alone adds all of the noise by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from torch import nn

from mechanisms.mechanism import Unprotected
from node.data.dataset import Dataset
from node.jobs.exact_model import exact_job
from node.task.load import read_task
from node.task.sections import Task
from node.task.shared_noise_keys import DISTRIBUTED
from scenarios.study.cells import NO_EPSILON, Fact
from scenarios.swarms.cells import privacy_facts
from scenarios.swarms.job_sums import run_job
from scenarios.swarms.replay import Swarm
from scenarios.swarms.steps import StepSwarm

ModelName = Literal["linear", "network", "additive", "trees", "additive-trees"]
PrivateName = Literal["linear", "additive"]
DELTA, HONEST = 1e-5, 1
"""Of arms with privacy; `HONEST` of a member's others are taken as honest."""
SUMS, WORDS = "sums", "words a member"
"""Names of facts."""


@dataclass(frozen=True)
class Learnt:
    """A model, and what it took: sums, a member's words in all of them, and facts about privacy."""

    model: nn.Module
    sums: int
    words: int
    privacy: dict[str, Fact]

    @property
    def facts(self) -> dict[str, Fact]:
        """All of it by name."""
        return {**self.privacy, SUMS: self.sums, WORDS: self.words}


def learn(name: ModelName, proposed: Task, rows: Sequence[Dataset], salt: int) -> Learnt:
    """Lets parties with these rows learn a model without privacy. `proposed`: node.init's task for it.

    `salt`: of random streams. Raises UserError, Diverged.
    """
    if name in ("linear", "network"):
        return _averaged(proposed, rows, salt)
    task = _without_trees(proposed) if name == "additive" else proposed
    jobs = [exact_job(task, each) for each in rows]
    run = run_job(jobs)
    return Learnt(jobs[0].model(run.base), run.sums, run.words, _unprotected())


def learn_privately(
    name: PrivateName, epsilon: float, proposed: Task, rows: Sequence[Dataset], salt: int
) -> Learnt:
    """Lets parties with these rows take the steps of a model, with (epsilon, DELTA) for a record.

    `proposed`, `salt`: as for `learn`. Raises UserError.
    """
    task = with_steps(_without_trees(proposed) if name == "additive" else proposed, rows, epsilon)
    swarm = StepSwarm(task, rows, salt)
    steps = swarm.rules.plan.steps
    for step in range(1, steps + 1):
        swarm.take(step)
    job = swarm.trainers[0]
    words = sum(job.words(generation) for generation in range(steps))
    return Learnt(job.module(swarm.base), steps, words, privacy_facts(swarm.ledger, swarm.protects))


def _averaged(task: Task, rows: Sequence[Dataset], salt: int) -> Learnt:
    swarm = Swarm(task, rows, salt)
    for number in range(1, task.train.rounds + 1):
        swarm.round(number)
    model = swarm.trainers[0].module(swarm.base)
    return Learnt(model, task.train.rounds, task.train.rounds * swarm.words, _unprotected())


def _unprotected() -> dict[str, Fact]:
    return {**NO_EPSILON, "protects": Unprotected.protects}


def with_steps(task: Task, rows: Sequence[Dataset], epsilon: float) -> Task:
    """Returns the task with shared steps, whose settings come from the product's table of defaults."""
    table = {
        "task": {"name": task.task.name, "seed": task.task.seed},
        "model": {"class": task.model.cls, "args": task.model.args},
        "train": {
            "expected_rows": sum(len(each.train_y) for each in rows),
            "loss": task.train.loss,
            "loss_args": task.train.loss_args,
        },
        "privacy": {"mechanism": DISTRIBUTED, "epsilon": epsilon, "delta": DELTA, "honest": HONEST},
    }
    return replace(read_task(table), data=task.data)


def _without_trees(task: Task) -> Task:
    """The task of an additive model that no trees follow."""
    args = {name: value for name, value in task.model.args.items() if name not in ("trees", "depth")}
    return replace(task, model=replace(task.model, args={**args, "trees": 0}))
