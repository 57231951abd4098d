"""Runs of shared private steps in one process, by the trainer of a node.

One member holds the rows of all n members, and adds the noise that all would add together: its variance is
that of n shares. The sample, gradients, clip, rounding to whole units and step are a node's. There is no
secure sum, which would add up exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from threading import Event

import numpy as np

from benchmarks.rates.cases import Case
from mechanisms.gradients.shared_noise import SharedNoise
from mechanisms.noise.randomness import SeededWords, Words
from mechanisms.updates.distributed import DistributedDP
from node.data.dataset import Dataset
from node.jobs.steps import StepTrainer
from node.runtime.privacy.budget import make_mechanism
from node.task.load import read_task
from node.task.sections import Task
from node.task.shared_noise_keys import DISTRIBUTED
from node.task.step_defaults import StepDefaults, step_defaults
from node.training.build import build_model
from node.training.trainer import Trainer, Vector, make_trainer, shapes

DELTA = 1e-5
_NOISE = 3  # a stream of random numbers under a seed
_PLAIN: dict[str, object] = {"rounds": 1, "epochs": 30, "batch_size": 64, "learning_rate": 0.01}


@dataclass(frozen=True)
class Settings:
    """A run: its epsilon, the members that share noise, how many others each takes as honest, its steps."""

    epsilon: float
    members: int
    honest: int
    steps: StepDefaults

    @property
    def variance(self) -> float:
        """The variance of the noise in a sum, in multiples of a trusted server's."""
        return self.members / (self.honest + 1)


def table_settings(case: Case, rows: int, epsilon: float, members: int, honest: int) -> Settings:
    """Return what the table of defaults says for `rows` rows of all members together."""
    return Settings(epsilon, members, honest, step_defaults(rows, epsilon, case.body is not None))


def private_metric(settings: Settings, case: Case, dataset: Dataset, seed: int) -> float:
    """Return the metric of the test rows after a run with these settings."""
    task = _task(case, dataset, seed, _shared_keys(settings, len(dataset.train_y)))
    words = SeededWords(np.random.default_rng([seed, _NOISE]))
    trainer = trainer_of_all(task, dataset, settings.members, words)
    return _metric(case, trainer, final_average(trainer, task))


def trainer_of_all(task: Task, dataset: Dataset, members: int, words: Words) -> StepTrainer:
    """Return the trainer of one member that holds the rows of all `members`, and adds the noise of all.

    Raises ValueError for a task without shared steps.
    """
    model, plan = build_model(task, dataset), task.step_plan
    mechanism = make_mechanism(task, shapes(model, task.train.parameters), dataset.units)
    if plan is None or not isinstance(mechanism, DistributedDP):
        raise ValueError(f"privacy.mechanism = {task.privacy.mechanism!r} has no shared steps")
    return StepTrainer(
        task, plan, model, dataset, task.task.seed, rule_of_all(mechanism.shared, members), words
    )


def final_average(trainer: StepTrainer, task: Task) -> Vector:
    """Take all steps of `task`; return the last average of iterates (d,)."""
    base = trainer.vector()
    for generation in range(task.train.steps or 0):
        base = trainer.following(base, generation, trainer.contribution(base, generation).words)
    return base


def rule_of_all(rule: SharedNoise, members: int) -> SharedNoise:
    """Return the rule of one member that adds the noise of so many."""
    one = rule.gradient
    return replace(rule, gradient=replace(one, noise_multiplier=one.noise_multiplier * math.sqrt(members)))


def plain_metric(case: Case, dataset: Dataset, seed: int) -> float:
    """Return the metric of the test rows after training without privacy on all rows together."""
    task = _task(case, dataset, seed, {"train": _PLAIN})
    trainer = make_trainer(task, build_model(task, dataset), dataset, seed, None)
    return _metric(case, trainer, trainer.train(trainer.vector(), 1, Event()).vector)


def _metric(case: Case, trainer: Trainer, base: Vector) -> float:
    found = trainer.evaluate(base)
    value = found.accuracy if case.metric == "accuracy" else found.metrics[case.metric]
    return 0.0 if value is None else value


def _task(case: Case, dataset: Dataset, seed: int, keys: dict[str, dict[str, object]]) -> Task:
    return read_task(
        {
            "task": {"name": case.name, "seed": seed},
            "model": {"class": case.model, "args": dict(case.arguments)},
            **keys,
        }
    )


def _shared_keys(settings: Settings, rows: int) -> dict[str, dict[str, object]]:
    found = settings.steps
    return {
        "train": {
            "steps": found.steps,
            "report_every": found.report_every,
            "expected_rows": rows,
            "expected_batch": found.expected_batch,
            "learning_rate": found.learning_rate,
        },
        "privacy": {
            "mechanism": DISTRIBUTED,
            "epsilon": settings.epsilon,
            "delta": DELTA,
            "honest": settings.honest,
            "clipping_radius": found.clipping_radius,
        },
    }
