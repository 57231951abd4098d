"""The job of shared steps: a sum has the gradients of all members, and the step from it makes the next base.

The learner's vectors here are bases of `node.training.step_optimizers`. What is evaluated, saved and served
as the model is the average of the iterates in them.
"""

from __future__ import annotations

import threading

import numpy as np
from torch import nn

from mechanisms.accounting.ledger import Event
from mechanisms.gradients.shared_noise import SharedNoise
from mechanisms.noise.clipping import NotFinite
from mechanisms.noise.randomness import SystemWords
from mechanisms.noise.randomness import Words as Random
from node.data.dataset import Dataset
from node.jobs.job import Contributed, Words
from node.system.errors import UserError
from node.task.sections import StepPlan, Task
from node.training.gradient_steps import PlainSteps, SharedSteps
from node.training.step_optimizers import StepOptimizer
from node.training.trainer import Diverged, Trained, Trainer, Vector, write_vector
from protocol.wire.ids import Key


class StepTrainer(Trainer):
    """Computes one gradient at a time, in float64 sums of whole units, and takes the steps of all members.

    It is a node's trainer and its job. A base of generation g is that after g steps.
    """

    def __init__(
        self,
        task: Task,
        plan: StepPlan,
        model: nn.Module,
        dataset: Dataset,
        seed: int,
        rule: SharedNoise,
        words: Random | None = None,
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

    initial = vector

    @property
    def length(self) -> int:
        """The length of a base: parameters, their average, and the optimiser's state."""
        return self._optimizer.words

    def words(self, generation: int) -> int:
        """Returns d: every sum is a gradient."""
        return self._rule.size

    def cost(self, generation: int) -> tuple[Event, ...]:
        """Returns the charge of one step."""
        return self._rule.events

    def is_over(self, base: Vector) -> bool:
        """Returns False: a task says how many steps there are."""
        return False

    def train(
        self, working: Vector, round_number: int, stop: threading.Event, own: int | None = None
    ) -> Trained:
        """Raises UserError: a node with shared noise does not train alone."""
        raise UserError("steps with shared noise are taken by all members together")

    def contribution(self, base: Vector, generation: int) -> Contributed:
        """Returns this member's words (d,) for the step after `base`: of a new sample, with new noise.

        Raises Diverged if the model has values that are not finite.
        """
        with self._busy:
            self._load_features()
            self._begin_at(base)
            self._norms.begin_training()
            try:
                with self._within_memory():
                    words, batch = self._shared.offer()
            except NotFinite as error:
                raise self._diverged from error
        return Contributed(words, batch.mean_loss, batch.not_finite)

    def _begin_at(self, base: Vector) -> None:
        """Writes the parameters at which the next gradients are taken into the model."""
        write_vector(self._model, self._optimizer.parameters(base), self._section.parameters)

    def following(
        self, base: Vector, generation: int, summed: Words, members: tuple[Key, ...] = ()
    ) -> Vector:
        """Returns the base after step generation + 1, by the sum of all members' words (d,).

        Raises Diverged if it is not finite; then it is so at every member.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # what diverged is found below
            found = self._optimizer.following(base, generation + 1, self._rule.decode(summed))
        if not np.isfinite(found).all():
            raise self._diverged
        return found

    @property
    def _diverged(self) -> Diverged:
        rate = self._section.learning_rate
        return Diverged("the steps diverged", f"lower train.learning_rate = {rate:g}, at all members")

    def _parameters(self, vector: Vector) -> Vector:
        """Returns the average in a base: it is what is evaluated, saved and served."""
        return self._optimizer.average(vector)
