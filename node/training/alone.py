"""The owner's model alone: the task's model on the owner's rows, without a peer and without noise.

It is trained as the run trains: once for each round, by the same loss, optimiser and schedule, each time from
where the last training ended. So it shows what the others' rows are worth to this owner. The model is not
stored. Where the task has a mechanism, its figure never leaves this machine: it comes from the rows
themselves, and no epsilon covers it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch

from node.data.dataset import Dataset
from node.system.clock import Clock
from node.system.errors import UserError
from node.system.system import SYSTEM, System
from node.task.sections import Task, TrainSection
from node.training.build import build_model
from node.training.devices import find_device
from node.training.figures.headline import Alone
from node.training.own_learner import OwnLearner
from node.training.trainer import Interrupted, LocalModel, make_trainer

LEAST_ROWS = 8
"""With fewer rows there is no model alone: the comparison would say nothing."""
_IDLE = 19


class Lone(Protocol):
    """Trains a model of this node's rows alone. A call may take `within_s` seconds; it has its own thread."""

    @property
    def within_s(self) -> float:
        """How long a call may take (s)."""

    @property
    def has_rows(self) -> bool:
        """Whether the rows are enough for such a model, and for a figure."""

    def keeping_features(self, folder: Path) -> Lone:
        """Returns the same with the folder of a frozen body's outputs."""

    def __call__(self, told: threading.Event) -> Alone | None:
        """Returns the figure; None if there is none, or if the node is `told` to end."""


@dataclass(frozen=True)
class LoneTraining:
    """Trains the task's torch model."""

    task: Task
    dataset: Dataset
    seed: int
    rounds: int
    within_s: float
    features: Path | None = None
    """The folder of a frozen body's outputs."""
    system: System = SYSTEM

    @property
    def has_rows(self) -> bool:
        """See Lone.has_rows."""
        data = self.dataset
        return len(data.train_y) >= LEAST_ROWS and data.validates and len(data.test_y) > 0

    def keeping_features(self, folder: Path) -> LoneTraining:
        """See Lone.keeping_features."""
        return replace(self, features=folder)

    def __call__(self, told: threading.Event) -> Alone | None:
        """See Lone."""
        stop = _TimeIsOver(told, self.system.clock, self.within_s)
        with suppress(Interrupted, UserError), _own_draws(self.task):
            return self._trained(stop)
        return None

    def _trained(self, stop: _TimeIsOver) -> Alone | None:
        section, lessons = self._lessons()
        task = replace(self.task, train=section)
        trainer = make_trainer(
            task, build_model(task, self.dataset), self.dataset, self.seed, None, self.system
        )
        if self.features is not None:
            trainer.keep_features(self.features)
        return _taught(trainer, lessons, stop)

    def _lessons(self) -> tuple[TrainSection, Sequence[int]]:
        """Returns the training of a lesson, and for each lesson the round of the run that it stands for.

        Where members take steps together, a lesson is a pass over the rows. There are as many as the run
        passes over this node's rows, in the mean; a batch is this node's part of a step's batch.
        """
        section, plan = replace(self.task.train, proximal=0.0), self.task.step_plan
        if plan is None:
            return section, range(1, self.rounds + 1)
        per_round = plan.report_every * plan.sampling_probability
        passes = max(1, round(per_round * self.rounds))
        part = max(1, round(plan.sampling_probability * len(self.dataset.train_y)))
        rounds = [1 + place * self.rounds // passes for place in range(passes)]
        return replace(section, epochs=1, seconds=None, batch_size=part), rounds


@dataclass(frozen=True)
class LoneLearner:
    """Trains a learner of another framework alone; it stops between two rounds."""

    learner: OwnLearner
    rounds: int
    within_s: float
    system: System = SYSTEM
    has_rows = True

    def keeping_features(self, folder: Path) -> LoneLearner:
        """Returns the same: there are no features."""
        return self

    def __call__(self, told: threading.Event) -> Alone | None:
        """See Lone."""
        stop = _TimeIsOver(told, self.system.clock, self.within_s)
        with suppress(Interrupted, UserError):
            return _taught(self.learner, range(1, self.rounds + 1), stop)
        return None


def _taught(model: LocalModel, lessons: Sequence[int], stop: _TimeIsOver) -> Alone | None:
    """Trains `model` from its first vector, in a lesson for each of these rounds, while there is time.

    Raises Interrupted if there was no time for one, or if the node is told to end.
    """
    vector, done = model.vector(), 0
    with suppress(Interrupted):
        for number, round_number in enumerate(lessons, 1):
            vector = model.train(vector, round_number, stop, number).vector
            done = number
    if stop.is_told or not done:
        raise Interrupted
    found = model.evaluate(vector).headline
    return None if found.value is None else Alone(found.metric, found.value, done / len(lessons))


class _TimeIsOver(threading.Event):
    """Ends a training when its time is over, or when the node is told to end."""

    def __init__(self, told: threading.Event, clock: Clock, within_s: float) -> None:
        super().__init__()
        self._told, self._now = told, clock.monotonic
        self._ends_at = clock.monotonic() + within_s

    @property
    def is_told(self) -> bool:
        return self._told.is_set()

    def is_set(self) -> bool:
        return self.is_told or self._now() >= self._ends_at


@contextmanager
def _own_draws(task: Task) -> Iterator[None]:
    """Makes layers such as dropout draw from task.seed; restores torch's generators at the end."""
    device = find_device(task.train.device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(task.task.seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(task.task.seed)
        yield


def yield_to_others() -> None:
    """Gives this thread the lowest priority: on Linux, where threads have one, if the process may set it."""
    if sys.platform == "linux":
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _IDLE)
