"""A model of tables that exact sums make: its job, and what a base of it means to a node."""

from __future__ import annotations

import threading

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from node.data.dataset import Dataset
from node.jobs.additive.columns import plan_of
from node.jobs.additive.job import MOST_NEWTON_SUMS, AdditiveJob
from node.jobs.cohort import Cohort
from node.jobs.final_counts import PURPOSE, FinalCounts
from node.jobs.trees.job import Forest, Rows, TreesJob
from node.storage.records import SwarmFigure
from node.storage.vector_files import Floats
from node.system.errors import UserError
from node.task.sections import Task
from node.task.table_models import TREES
from node.training.figures.tallies import Tally
from node.training.gradient_steps import PlainSteps
from node.training.local_tensors import Array, whole_model
from node.training.losses import answers
from node.training.trainer import Trained, Trainer, Vector

_HELD_OUT = 5
"""Of so many rows, or persons, one says when trees help no more: it is not learned from by them."""
_PATIENCE_AFTER_CURVES = 10


class ExactTrainer(Trainer):
    """Evaluates bases of `job` on a node's rows: before the first curve or tree all scores are alike.

    The job has the same members in all sums, as their totals have no noise. It has at most `most_sums`;
    `round_sums` of them are a round, as people count them; `purposes` say what for, `course` in words.
    """

    def __init__(
        self, task: Task, model: nn.Module, dataset: Dataset, seed: int, tally: Tally | None = None
    ) -> None:
        """`tally`: what all members count for the last base; None: nothing.

        Raises ConfigError for a task that is none for the job, UserError for too few rows.
        """
        super().__init__(model, task.train, dataset, seed, PlainSteps)
        self._own = own = exact_job(task, dataset)
        self.round_sums, self.purposes = own.round_sums, own.purposes
        self._counts = None if tally is None else FinalCounts(own, tally, self._outputs_of, dataset.validates)
        if self._counts is not None:
            self.purposes += ((PURPOSE, 1),)
        self.job = Cohort(self._counts or own)
        self.most_sums = (self._counts or own).most_sums
        self.course = own.course

    def vector(self) -> Vector:
        """Returns base 0."""
        return self.job.initial()

    def train(
        self, working: Vector, round_number: int, stop: threading.Event, own: int | None = None
    ) -> Trained:
        """Raises UserError: the model comes from sums over all members."""
        raise UserError("this model is learnt from sums over all members, not alone")

    def tensors(self, vector: Vector) -> dict[str, Array]:
        """Returns all tensors of the model of a base, by name."""
        with self._busy:
            self._put(vector)
            return whole_model(self._model, {})

    def made(self, vector: Vector) -> str:
        """Returns what a base is made of, in words; empty until the job is over."""
        return self._own.made(self.job.of_job(vector)[: self._own.length])

    def figure(self, vector: Vector, generation: int) -> SwarmFigure | None:
        """Returns the metric of all members' test rows that a base of this generation tells; None: none."""
        return None if self._counts is None else self._counts.figure(self.job.of_job(vector), generation)

    def _put(self, vector: Vector) -> None:
        self._put_base(self.job.of_job(vector)[: self._own.length])

    def _put_base(self, base: Floats) -> None:
        self._model.load_state_dict(self._own.model(base).state_dict())

    def _outputs_of(self, base: Floats) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the answers (n, ...) of a base of the model's job for the test rows, and the targets."""
        with self._busy:
            self._put_base(base)
            outputs = self._outputs(self._dataset.test_x)
            return answers(self._section, outputs).cpu(), self._dataset.test_y.cpu()


def exact_job(task: Task, dataset: Dataset) -> AdditiveJob | TreesJob:
    """Returns the job of a task's model.

    Raises ConfigError for arguments that the model does not have, UserError for too few rows.
    """
    plan, args, is_forest = plan_of(task), task.model.args, task.model.cls == TREES
    x, y = dataset.train_x, dataset.train_y.numpy()
    if not args["trees"]:
        return AdditiveJob(plan, x, y)
    forest = Forest(args["trees"], args["depth"], MOST_NEWTON_SUMS, patience=_PATIENCE_AFTER_CURVES)
    if is_forest:
        forest = Forest(args["trees"], args["depth"], rate=args["rate"])
    out = _held_out(dataset)
    rows, held_out = (Rows(x[torch.from_numpy(part)], y[part]) for part in (~out, out))
    return TreesJob(plan, forest, rows, held_out)


def _held_out(dataset: Dataset) -> NDArray[np.bool_]:
    """Returns which rows (n,) trees do not learn from; of a person all or none."""
    count = len(dataset.train_y)
    units = np.arange(count) if dataset.persons is None else dataset.persons.train.numpy()
    return np.asarray(units % _HELD_OUT == _HELD_OUT - 1)
