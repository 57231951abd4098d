"""What a model learns from the rows of one party or of several, by the jobs and steps that nodes have.

    linear, network         the task that node.init proposes: updates are averaged
    additive                its exact job
    trees, additive-trees   the exact job of boosted trees, the second from the score of an additive model

    with privacy            linear: shared steps; additive: noised histograms for its cells, then shared steps

One party alone adds all of the noise by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from torch import nn

from mechanisms.mechanism import Unprotected
from node.data.dataset import Dataset
from node.jobs.additive.columns import MODEL, model_arguments, plan_of
from node.jobs.additive.job import AdditiveJob
from node.jobs.trees.job import Forest, Rows, TreesJob
from node.task.data_schema import ClassTarget, TableSchema
from node.task.load import read_task
from node.task.sections import ModelSection, Task
from node.task.shared_noise_keys import DISTRIBUTED
from scenarios.study.cells import NO_EPSILON, Fact
from scenarios.swarms.cells import privacy_facts
from scenarios.swarms.job_sums import JobRun, run_job
from scenarios.swarms.replay import Swarm
from scenarios.swarms.steps import StepSwarm

ModelName = Literal["linear", "network", "additive", "trees", "additive-trees"]
PrivateName = Literal["linear", "additive"]
DELTA = 1e-5
TREES, DEPTH, CURVE_SUMS = 100, 4, 8
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
    match name:
        case "linear" | "network":
            return _averaged(proposed, rows, salt)
        case "additive":
            task = _additive(proposed)
            jobs = [AdditiveJob(plan_of(task), each.train_x, each.train_y.numpy()) for each in rows]
            run = run_job(jobs)
            return _exact(jobs[0].model(run.base), run)
        case _:
            task = _additive(proposed)
            forest = Forest(TREES, DEPTH, CURVE_SUMS if name == "additive-trees" else 0)
            trees = [
                TreesJob(
                    plan_of(task),
                    forest,
                    Rows(each.train_x, each.train_y.numpy()),
                    Rows(each.test_x, each.test_y.numpy()),
                )
                for each in rows
            ]
            run = run_job(trees)
            return _exact(trees[0].model(run.base), run)


def learn_privately(
    name: PrivateName, epsilon: float, proposed: Task, rows: Sequence[Dataset], salt: int
) -> Learnt:
    """Lets parties with these rows take the steps of a model, with (epsilon, DELTA) for a record.

    `proposed`, `salt`: as for `learn`. Raises UserError.
    """
    task = _with_steps(_additive(proposed) if name == "additive" else proposed, rows, epsilon)
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


def _exact(model: nn.Module, run: JobRun) -> Learnt:
    return Learnt(model, run.sums, run.words, _unprotected())


def _unprotected() -> dict[str, Fact]:
    return {**NO_EPSILON, "protects": Unprotected.protects}


def _with_steps(task: Task, rows: Sequence[Dataset], epsilon: float) -> Task:
    """The task with shared steps, whose settings come from the product's table of defaults."""
    table = {
        "task": {"name": task.task.name, "seed": task.task.seed},
        "model": {"class": task.model.cls, "args": task.model.args},
        "train": {
            "expected_rows": sum(len(each.train_y) for each in rows),
            "loss": task.train.loss,
            "loss_args": task.train.loss_args,
        },
        "privacy": {"mechanism": DISTRIBUTED, "epsilon": epsilon, "delta": DELTA, "honest": 1},
    }
    return replace(read_task(table), data=task.data)


def _additive(task: Task) -> Task:
    """The task with an additive model."""
    schema = task.data.schema
    if not isinstance(schema, TableSchema):
        raise TypeError(f"task {task.task.name} is of no table")
    loss = "bce" if isinstance(schema.target, ClassTarget) else "mse"
    return replace(
        task,
        model=ModelSection(MODEL, model_arguments(schema)),
        train=replace(task.train, loss=loss, loss_args={}),
    )
