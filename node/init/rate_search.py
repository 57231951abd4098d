"""A short search for the learning rate on an owner's own rows: for tasks without privacy."""

from __future__ import annotations

import math
from dataclasses import replace
from threading import Event

import torch

from node.data.dataset import Dataset
from node.task.sections import Task
from node.training.build import build_model
from node.training.trainer import Diverged, make_trainer

FACTORS = (1 / 3, 1.0, 3.0)
_MOST_ROWS, _ROUNDS = 5000, 5
_CLEARLY = 0.98
"""Another rate is taken only if its loss is this part of the given rate's: less may be chance."""


def searched_rate(task: Task, dataset: Dataset) -> float:
    """Returns the task's rate, a third of it or three times it: the best on the rows held back.

    Each is tried over five short rounds on at most 5,000 rows. With too few rows held back for a figure,
    it is the task's. Raises ConfigError as a node does.
    """
    rows = dataset.having(torch.arange(min(_MOST_ROWS, len(dataset.train_y))))
    if not dataset.validates:
        return task.train.learning_rate
    losses = {rate: _loss(task, rows, rate) for rate in candidates(task.train.learning_rate)}
    best = min(losses, key=lambda rate: losses[rate])
    given = losses[task.train.learning_rate]
    return best if losses[best] < _CLEARLY * given or math.isinf(given) else task.train.learning_rate


def candidates(rate: float) -> tuple[float, ...]:
    """Returns the rates that are tried, to one digit, the given one among them."""
    return tuple(rate if factor == 1.0 else float(f"{rate * factor:.1g}") for factor in FACTORS)


def _loss(task: Task, rows: Dataset, rate: float) -> float:
    """Returns the loss on the rows held back; infinity if training diverges."""
    short = replace(task, train=replace(task.train, learning_rate=rate, rounds=_ROUNDS))
    trainer = make_trainer(short, build_model(short, rows), rows, task.task.seed, None)
    vector = trainer.vector()
    try:
        for number in range(1, _ROUNDS + 1):
            vector = trainer.train(vector, number, Event()).vector
    except Diverged:
        return math.inf
    loss = trainer.evaluate(vector).loss
    return loss if loss is not None and math.isfinite(loss) else math.inf
