"""What a base of an additive job means to a node: the model that it evaluates, writes and serves."""

from __future__ import annotations

import threading

from node.data.dataset import Dataset
from node.jobs.additive.columns import plan_of
from node.jobs.additive.job import AdditiveJob
from node.jobs.cohort import Cohort
from node.models.additive import Additive
from node.system.errors import UserError
from node.task.sections import Task
from node.training.gradient_steps import PlainSteps
from node.training.local_tensors import Array, whole_model
from node.training.trainer import Trained, Trainer, Vector


class AdditiveTrainer(Trainer):
    """Evaluates bases of `job` on a node's rows: before the first curves all scores are alike.

    The job has the same members in all sums, as their totals have no noise.
    """

    def __init__(self, task: Task, model: Additive, dataset: Dataset, seed: int) -> None:
        """Raises ConfigError for a task that is none for the job, UserError for too few rows."""
        super().__init__(model, task.train, dataset, seed, PlainSteps)
        self._curves = AdditiveJob(plan_of(task), dataset.train_x, dataset.train_y.numpy())
        self.job = Cohort(self._curves)
        self.count_sums = self._curves.count_sums

    def vector(self) -> Vector:
        """Returns base 0."""
        return self.job.initial()

    def train(
        self, working: Vector, round_number: int, stop: threading.Event, own: int | None = None
    ) -> Trained:
        """Raises UserError: curves come from sums over all members."""
        raise UserError("an additive model is learnt from sums over all members, not alone")

    def tensors(self, vector: Vector) -> dict[str, Array]:
        """Returns all tensors of the model of a base, by name."""
        with self._busy:
            self._put(vector)
            return whole_model(self._model, {})

    def _put(self, vector: Vector) -> None:
        self._model.load_state_dict(self._curves.model(self.job.of_job(vector)).state_dict())
