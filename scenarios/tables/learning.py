"""Goes the way of users: node.init makes a task of one site's file, and all sites learn with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from node.api.swarm import Swarm as NodeSwarm
from node.data.dataset import Dataset, own_rows
from node.data.sources import read_source
from node.system.errors import UserError
from node.task.load import load_task
from node.task.sections import Task
from node.training.figures.metrics import probabilities
from node.training.trainer import Diverged
from scenarios.swarms.replay import Swarm
from scenarios.tables.proposal import propose_task
from scenarios.tables.sites import TARGET, Split, write


def prepare_split(
    folder: Path, split: Split, kind: str, options: Sequence[str]
) -> tuple[Task, list[Path], Path]:
    """Write all files to `folder`; let node.init make a task of the first site's.

    Returns the task, the sites' files and the test file. Raises UserError if node.init fails.
    """
    folder.mkdir(exist_ok=True)
    files = [write(folder, f"site{number}", kind, site) for number, site in enumerate(split.sites)]
    test = write(folder, "test", kind, split.test)
    target = ["--target", TARGET] if kind == "csv" else []
    out = propose_task(files[0], folder / "task.toml", *target, "--peers", "3", *options)
    return load_task(str(out), []), files, test


def rows_of(task: Task, files: Sequence[Path], test: Path) -> list[Dataset]:
    """Return each site's rows as its node reads them, all with the same test rows."""
    common = read_source(test, task)
    x, y = torch.from_numpy(common.x), torch.from_numpy(common.y)
    return [replace(rows, test_x=x, test_y=y, accuracy_name="test") for rows in own_datasets(task, files)]


def own_datasets(task: Task, files: Sequence[Path]) -> list[Dataset]:
    """Return each site's rows as its node reads them, a part of them held back for validation."""
    return [own_rows(read_source(file, task), task) for file in files]


def answers(task: Task, datasets: Sequence[Dataset]) -> NDArray[np.float64]:
    """Train a swarm with a node's own code; return its answers for the test rows.

    These are probabilities (n, k), or numbers (n,) as the task scales them; all 0 if training diverges.
    """
    classes = datasets[0].classes
    try:
        swarm = train_swarm(task, datasets)
    except Diverged:
        rows = len(datasets[0].test_y)
        return np.zeros(rows if classes is None else (rows, classes))
    return model_answers(swarm.trainers[0].module(swarm.base), datasets[0])


def train_swarm(task: Task, datasets: Sequence[Dataset]) -> Swarm:
    """Train a swarm for all rounds of the task, and return it. Raises Diverged."""
    swarm = Swarm(task, datasets, salt=0)
    for number in range(1, task.train.rounds + 1):
        swarm.round(number)
    return swarm


def model_answers(model: nn.Module, dataset: Dataset) -> NDArray[np.float64]:
    """Return a model's answers for the test rows, in the form of `answers`."""
    with torch.inference_mode():
        outputs = model(dataset.test_x)
    return outputs.reshape(-1).double().numpy() if dataset.classes is None else probabilities(outputs)


def answers_of_nodes(task: Task, files: Sequence[Path], dataset: Dataset) -> NDArray[np.float64]:
    """Let real nodes learn on loopback, one a file; return what `answers` returns. Raises UserError."""
    results = NodeSwarm.local(len(files), task, list(files), alone="no").run()
    if not results.agreed:
        raise UserError("the nodes ended with different models")
    return model_answers(results.model, dataset)
