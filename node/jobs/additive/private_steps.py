"""The additive model with privacy as a job: cells by two noised histograms, then noised steps on them.

    generation 0, 1    histograms of all columns of numbers (node.jobs.additive.private_cells)
    2 and on           gradients of the head, of rows that are 1 / sqrt(columns + 1) in each of their cells

A base has both parts. So the cells are a function of the base alone, and whoever comes later learns them from
it. Noise covers every sum: members may come and go.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import nn

from mechanisms.accounting.ledger import Event
from mechanisms.noise.randomness import SystemWords
from mechanisms.noise.randomness import Words as Random
from mechanisms.updates.distributed import DistributedDP
from node.data.dataset import Dataset
from node.jobs.additive.columns import encoded_ranges, fitting_schema
from node.jobs.additive.private_cells import NumberValues, PrivateCells
from node.jobs.job import Contributed, Words
from node.jobs.steps import StepTrainer
from node.models.additive import Additive, Cells
from node.storage.vector_files import Floats
from node.system.errors import ConfigError, shown
from node.task.sections import CELL_SUMS, StepPlan, Task
from node.task.step_defaults import cells_under_noise
from node.training.trainer import Vector
from protocol.wire.ids import Key
from protocol.wire.limits import MAX_MEMBERS


class CellStepTrainer(StepTrainer):
    """A node's trainer and job: `cells` first, then the steps of a StepTrainer."""

    def __init__(
        self,
        task: Task,
        plan: StepPlan,
        model: Additive,
        dataset: Dataset,
        seed: int,
        mechanism: DistributedDP,
        words: Random | None = None,
    ) -> None:
        """`words`: secret, for samples and noise; None: the system's. Raises ConfigError, as StepTrainer."""
        if task.model.body is not None:
            raise ConfigError(
                f"model.body = {shown(task.model.body)} is refused: the first {CELL_SUMS} sums find the "
                "cells that it would have; leave it out"
            )
        if mechanism.cells is None:
            raise ValueError("the mechanism has no noise for cells")
        words = words or SystemWords()
        steps = replace(plan, steps=plan.steps - CELL_SUMS)
        super().__init__(task, steps, model, dataset, seed, mechanism.shared, words)
        known = task.train.expected_rows or round(plan.expected_batch / plan.sampling_probability)
        try:
            self._cells = PrivateCells(
                encoded_ranges(fitting_schema(task)),
                _number_values(model.body, dataset),
                mechanism.cells,
                MAX_MEMBERS,
                min(task.model.args["cells"], cells_under_noise(known, task.privacy.epsilon)),
                words,
            )
        except ValueError as error:
            raise ConfigError(f"model.class = {shown(task.model.cls)}: {error}") from None
        self._cell_cost = mechanism.planned_cells[:1]
        self._edges = model.body
        self._placed = b""

    def vector(self) -> Vector:
        """Returns the first base: no cells, and nothing learned yet."""
        return np.concatenate([self._cells.initial(), super().vector()])

    initial = vector

    @property
    def length(self) -> int:
        """The length of both parts."""
        return self._cells.length + super().length

    def words(self, generation: int) -> int:
        """Returns the words of a histogram, or of a gradient."""
        return self._cells.words(generation) if generation < CELL_SUMS else super().words(generation)

    def cost(self, generation: int) -> tuple[Event, ...]:
        """Returns the charge of a histogram, or of a step."""
        return self._cell_cost if generation < CELL_SUMS else super().cost(generation)

    def contribution(self, base: Vector, generation: int) -> Contributed:
        """Returns this member's words, with new noise. Raises Diverged as StepTrainer does."""
        if generation < CELL_SUMS:
            return self._cells.contribution(self._part(base), generation)
        return super().contribution(base, generation - CELL_SUMS)

    def following(
        self, base: Vector, generation: int, summed: Words, members: tuple[Key, ...] = ()
    ) -> Vector:
        """Returns the base with a histogram of `members`, or after a step. Raises Diverged."""
        cells, steps = self._part(base), base[self._cells.length :]
        if generation < CELL_SUMS:
            cells = self._cells.following(cells, generation, summed, members)
        else:
            steps = super().following(steps, generation - CELL_SUMS, summed, members)
        return np.concatenate([cells, steps])

    def _part(self, base: Vector) -> Floats:
        return base[: self._cells.length]

    def _begin_at(self, base: Vector) -> None:
        self._place_edges(base)
        super()._begin_at(base[self._cells.length :])

    def _put(self, vector: Vector) -> None:
        self._place_edges(vector)
        super()._put(vector)

    def _parameters(self, vector: Vector) -> Vector:
        return super()._parameters(vector[self._cells.length :])

    def _place_edges(self, base: Vector) -> None:
        """Gives the model the cells of a base; before both histograms are there, all numbers share one."""
        part = self._part(base)
        if part.tobytes() != self._placed:
            self._edges.set_edges(self._cells.edges(part) if self._cells.is_over(part) else ())
            self._placed = part.tobytes()


def step_trainer(
    task: Task,
    plan: StepPlan,
    model: nn.Module,
    dataset: Dataset,
    seed: int,
    mechanism: DistributedDP,
    words: Random | None = None,
) -> StepTrainer:
    """Returns the trainer and job of steps with shared noise, after sums for cells if the task needs them.

    `words`: secret, for samples and noise; None: the system's. Raises ConfigError.
    """
    if isinstance(model, Additive) and mechanism.cells is not None:
        return CellStepTrainer(task, plan, model, dataset, seed, mechanism, words)
    return StepTrainer(task, plan, model, dataset, seed, mechanism.shared, words)


def _number_values(body: Cells, dataset: Dataset) -> NumberValues:
    """Returns the values of the columns of numbers, NaN where there is none, and whose the rows are."""
    x = dataset.train_x.cpu()
    values = np.empty((len(x), len(body.numbers)), np.float32)
    for place, column in enumerate(body.numbers):
        part = x[:, column.feature : column.feature + column.width].numpy()
        values[:, place] = (
            np.where(part[:, -1] > 0.5, np.nan, part[:, 0]) if column.has_missing else part[:, 0]
        )
    of = dataset.together
    return NumberValues(values, None if of is None else of.train.cpu().numpy())
