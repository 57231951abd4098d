"""A node's part in steps that all members take together: its gradient's words, and the step from their sum.

The learner's vectors here are bases of `node.training.step_optimizers`. What is evaluated, saved and served
as the model is the average of the iterates in them.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from mechanisms.gradients.shared_noise import SharedNoise
from mechanisms.noise.clipping import NotFinite
from mechanisms.noise.randomness import SystemWords, Words
from node.data.dataset import Dataset
from node.system.errors import UserError
from node.task.sections import StepPlan, Task
from node.training.gradient_steps import PlainSteps, SharedSteps
from node.training.local_tensors import Array
from node.training.step_optimizers import StepOptimizer
from node.training.trainer import Diverged, Evaluation, Trained, Trainer, Vector, write_vector


@dataclass(frozen=True)
class Contributed:
    """A member's words (d,) for one sum; its mean loss, seconds and uncounted rows stay on the node."""

    words: NDArray[np.uint32]
    loss: float
    seconds: float
    not_finite: int


class StepTrainer(Trainer):
    """Computes one gradient at a time, in float64 sums of whole units, and takes the steps of all members."""

    def __init__(
        self,
        task: Task,
        plan: StepPlan,
        model: nn.Module,
        dataset: Dataset,
        seed: int,
        rule: SharedNoise,
        words: Words | None = None,
    ) -> None:
        """`words`: secret, for samples and noise; None: the system's. Raises ConfigError as Trainer does."""
        section = task.train
        words = words or SystemWords()
        super().__init__(model, section, dataset, seed, PlainSteps, body=task.model.body)
        self._rule = rule
        self._optimizer = StepOptimizer(section, plan, rule.size)
        self._shared = SharedSteps(model, self._loss, self._tried, rule, words)

    def _load_features(self) -> None:
        lacked = self._lacks_features
        super()._load_features()
        if lacked:
            self._shared.use(self._dataset)

    @property
    def slow(self) -> str:
        """Why gradients take longer than they could; "" if they do not."""
        return self._shared.slow

    def vector(self) -> Vector:
        """Returns the first base: the model's parameters, and nothing learned yet."""
        return self._optimizer.initial(super().vector())

    def train(
        self, working: Vector, round_number: int, stop: threading.Event, own: int | None = None
    ) -> Trained:
        """Raises UserError: a node with shared noise does not train alone."""
        raise UserError("steps with shared noise are taken by all members together")

    def contribution(self, base: Vector) -> Contributed:
        """Returns this member's words for the step that follows `base`: of a new sample, with new noise.

        Raises Diverged if the model has values that are not finite.
        """
        with self._busy:
            self._load_features()
            begun = time.perf_counter()
            write_vector(self._model, self._optimizer.parameters(base), self._section.parameters)
            self._norms.begin_training()
            try:
                with self._within_memory():
                    words, batch = self._shared.offer()
            except NotFinite as error:
                raise self._diverged from error
        return Contributed(words, batch.mean_loss, time.perf_counter() - begun, batch.not_finite)

    def following(self, base: Vector, step: int, summed: NDArray[np.uint32]) -> Vector:
        """Returns the base after step `step`, from 1, by the sum of all members' words (d,).

        Raises Diverged if it is not finite; then it is so at every member.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # what diverged is found below
            found = self._optimizer.following(base, step, self._rule.decode(summed))
        if not np.isfinite(found).all():
            raise self._diverged
        return found

    @property
    def _diverged(self) -> Diverged:
        rate = self._section.learning_rate
        return Diverged("the steps diverged", f"lower train.learning_rate = {rate:g}, at all members")

    def evaluate(self, vector: Vector) -> Evaluation:
        """Evaluates the average in a base on the dataset's test rows."""
        return super().evaluate(self._optimizer.average(vector))

    def outputs(self, vector: Vector) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the outputs (n, ...) of the average in a base for the test rows, and their targets (n,)."""
        return super().outputs(self._optimizer.average(vector))

    def outputs_by_row(self, vector: Vector) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the same, computed for one row at a time."""
        return super().outputs_by_row(self._optimizer.average(vector))

    def own_loss(self, vector: Vector) -> float:
        """Returns the mean loss of the average in a base on this node's own rows."""
        return super().own_loss(self._optimizer.average(vector))

    def module(self, vector: Vector) -> nn.Module:
        """Returns a model with the average in a base, for inference."""
        return super().module(self._optimizer.average(vector))

    def tensors(self, vector: Vector) -> dict[str, Array]:
        """Returns all tensors of the model with the average in a base, by name."""
        return super().tensors(self._optimizer.average(vector))
