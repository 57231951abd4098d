"""The cases that the table of defaults must suit: data sets, models, swarms, and goals set beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from node.data import partition
from node.data.dataset import Dataset
from node.task.sections import ModelSection
from node.training.build import make
from node.training.frozen_body import FrozenBody
from scenarios.data import sources

_HELD_OUT = 0.2  # of the training rows
_PUBLISHED, _HOLDING = 1, 2  # streams of random numbers under a seed

Metric = Literal["accuracy", "auc"]


@dataclass(frozen=True)
class Case:
    """A data set, a model for it, and a swarm of `peers`, each of which takes `honest` others as honest.

    `goals`: by epsilon, the least `metric` of the test rows; for "auc", how far it may be below that of a
    model of all rows without privacy. `body`: a model whose body is not trained and makes the features, if
    any. `most_rows`: how many rows `validation_split` trains on; None: all.
    """

    name: str
    source: str
    model: str
    arguments: Mapping[str, Any]
    peers: int
    honest: int
    metric: Metric
    goals: Mapping[float, float]
    body: ModelSection | None = None
    most_rows: int | None = None

    @property
    def usual_honest(self) -> int:
        """`privacy.honest` of a task that does not set it: half of the others."""
        return max(1, (self.peers - 1) // 2)


@dataclass(frozen=True)
class Folders:
    """Where the data sets are, and where features are kept, if anywhere."""

    data: Path
    features: Path | None


CASES = {
    case.name: case
    for case in (
        Case(
            *("digits", "digits", "node.models:MLP", {"sizes": [64, 64, 10]}),
            *(5, 2, "accuracy", {1.0: 0.87, 3.0: 0.925, 8.0: 0.945}),
        ),
        Case(
            *("adult", "adult", "node.models:Linear", {"inputs": 107, "outputs": 2}),
            *(3, 1, "auc", {1.0: 0.03, 3.0: 0.015, 8.0: 0.01}),
        ),
        Case(
            *("adult-few", "adult", "node.models:Linear", {"inputs": 107, "outputs": 2}),
            *(3, 1, "auc", {}),
            most_rows=1000,
        ),
        Case(
            *("mnist-mlp", "mnist", "node.models:MLP", {"sizes": [784, 64, 10]}),
            *(10, 6, "accuracy", {1.0: 0.915, 3.0: 0.935, 8.0: 0.945}),
        ),
        Case(
            *("mnist-scattering", "mnist", "node.models:Linear", {"inputs": 3969, "outputs": 10}),
            *(10, 6, "accuracy", {1.0: 0.975, 3.0: 0.982}),
            body=ModelSection("node.models:Scattering", {"shape": [1, 28, 28], "outputs": 10}, body="body"),
        ),
    )
}


def validation_split(case: Case, folders: Folders, seed: int) -> Dataset:
    """Return the training rows alone: a fifth of them, drawn by `seed`, takes the place of the test rows."""
    whole = full_split(case, folders, seed)
    rng = np.random.default_rng([seed, _HOLDING])
    kept, held_out = partition.hold_out(whole.train_y.numpy(), _HELD_OUT, rng)
    kept = rng.permutation(kept)[: case.most_rows] if case.most_rows is not None else kept
    return replace(
        whole,
        train_x=whole.train_x[kept],
        train_y=whole.train_y[kept],
        test_x=whole.train_x[held_out],
        test_y=whole.train_y[held_out],
        accuracy_name="validation",
    )


def full_split(case: Case, folders: Folders, seed: int) -> Dataset:
    """Return the publisher's training and test rows; of digits those of nodes with this `task.seed`."""
    return _load_case(case.name, folders, seed if case.source == "digits" else 0)


@lru_cache(maxsize=3)
def _load_case(name: str, folders: Folders, seed: int) -> Dataset:
    case = CASES[name]
    found = sources.load(case.source, folders.data, np.random.default_rng([seed, _PUBLISHED]))
    train_x, test_x = (torch.from_numpy(x) for x in (found.train_x, found.test_x))
    if case.body is not None and case.body.body is not None:
        body = FrozenBody(make(case.body, 0), case.body.body, train_x)
        train_x, test_x = (body.features(x, folders.features) for x in (train_x, test_x))
    train_y, test_y = (torch.from_numpy(y) for y in (found.train_y, found.test_y))
    return Dataset(train_x, train_y, test_x, test_y, "test", found.classes, found.description)
