"""Features of a frozen body for a whole data set, computed once a machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from node.models.scattering import Scattering
from node.system.errors import ConfigError, UserError, reason
from node.task.sections import ModelSection, Task
from node.training.build import make
from node.training.frozen_body import FrozenBody
from scenarios.data.dataset import FederatedDataset
from scenarios.data.sources import data_folder


def with_features(task: Task, dataset: FederatedDataset) -> tuple[Task, FederatedDataset]:
    """The task of the head alone, and the body's outputs as rows; both as they are if there is no body.

    The head of scattering features has the initial weights that it has behind the body: the body draws none.
    Features are computed once and kept in the user's cache folder. Raises UserError.
    """
    if task.model.body is None:
        return task, dataset
    model = make(task.model, task.task.seed)
    if not isinstance(model, Scattering):
        raise ConfigError(
            f"model.class = {task.model.cls!r} is refused with model.body here; allowed: Scattering"
        )
    head = {"inputs": model.head.in_features, "outputs": model.head.out_features}
    train_x, test_x = (_features(model, task.model.body, x) for x in (dataset.train_x, dataset.test_x))
    linear = replace(task, model=ModelSection("node.models:Linear", head))
    return linear, replace(dataset, train_x=train_x, test_x=test_x)


def _features(model: torch.nn.Module, name: str, rows: np.ndarray) -> np.ndarray:
    """The outputs of the body called `name` for rows (n, ...), from the cache folder if they are there."""
    images = torch.from_numpy(rows if rows.flags.writeable else rows.copy())
    for value in model.get_submodule(name).parameters():
        value.requires_grad_(False)
    body = FrozenBody(model, name, images)
    folder = features_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            found: np.ndarray = body.features(images, folder).numpy()
    except OSError as error:
        raise UserError(f"{folder}: the features cannot be kept: {reason(error)}") from error
    finally:
        body.restore(model)
    return found


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time compute features, so that others find them. Raises OSError."""
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def features_folder() -> Path:
    """The folder of features, in the user's cache folder."""
    places = {name: os.environ[name] for name in ("XDG_CACHE_HOME",) if name in os.environ}
    return data_folder(None, places) / "features"
