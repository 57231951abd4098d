"""What the table of defaults must suit: data sets, models, swarms, and the goals that were set beforehand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from node.data import partition
from node.data.dataset import Dataset
from node.models.scattering import ScatteringFeatures
from scenarios.data import sources

_HELD_OUT = 0.2  # of the training rows
_PUBLISHED, _HOLDING = 1, 2  # streams of random numbers under a seed
_AT_ONCE = 256  # images

Metric = Literal["accuracy", "auc"]


@dataclass(frozen=True)
class Case:
    """A data set with a model for it, and a swarm of `peers`, `honest` of a node's others taken as honest.

    `goals`: by epsilon, the least that the `metric` of the test rows is to be; for "auc" the most that it may
    stay below that of all rows together without privacy. `frozen`: the rows become features of a body that is
    not trained.
    """

    name: str
    source: str
    model: str
    arguments: Mapping[str, Any]
    peers: int
    honest: int
    metric: Metric
    goals: Mapping[float, float]
    frozen: bool = False
    prepared: Callable[[torch.Tensor], torch.Tensor] = field(default=torch.Tensor.contiguous)

    @property
    def usual_honest(self) -> int:
        """What a task takes that does not say `privacy.honest`: half of the others."""
        return max(1, (self.peers - 1) // 2)


def scattered(images: torch.Tensor) -> torch.Tensor:
    """Return the features (n, 3969) of images (n, 1, 28, 28)."""
    body = ScatteringFeatures(*images.shape[2:])
    with torch.no_grad():
        return torch.cat([body(batch) for batch in torch.split(images, _AT_ONCE)])


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
            *("mnist-mlp", "mnist", "node.models:MLP", {"sizes": [784, 64, 10]}),
            *(10, 6, "accuracy", {1.0: 0.915, 3.0: 0.935, 8.0: 0.945}),
        ),
        Case(
            *("mnist-scattering", "mnist", "node.models:Linear", {"inputs": 3969, "outputs": 10}),
            *(10, 6, "accuracy", {1.0: 0.975, 3.0: 0.982}),
            frozen=True,
            prepared=scattered,
        ),
    )
}


def for_choosing(case: Case, folder: Path, seed: int) -> Dataset:
    """Return the training rows alone: a fifth of them, drawn with `seed`, stands in for the test rows."""
    whole = for_reading(case, folder, seed)
    rng = np.random.default_rng([seed, _HOLDING])
    kept, held_out = partition.hold_out(whole.train_y.numpy(), _HELD_OUT, rng)
    return replace(
        whole,
        train_x=whole.train_x[kept],
        train_y=whole.train_y[kept],
        test_x=whole.train_x[held_out],
        test_y=whole.train_y[held_out],
        accuracy_name="validation",
    )


def for_reading(case: Case, folder: Path, seed: int) -> Dataset:
    """Return all training rows, and the test rows: the publisher's, or those of nodes with this task.seed."""
    return _prepared(case.name, folder, seed if case.source == "digits" else 0)


@lru_cache(maxsize=3)
def _prepared(name: str, folder: Path, seed: int) -> Dataset:
    case = CASES[name]
    found = sources.load(case.source, folder, np.random.default_rng([seed, _PUBLISHED]))
    train_x, test_x = (case.prepared(torch.from_numpy(x)) for x in (found.train_x, found.test_x))
    train_y, test_y = (torch.from_numpy(y) for y in (found.train_y, found.test_y))
    return Dataset(train_x, train_y, test_x, test_y, "test", found.classes, found.description)
