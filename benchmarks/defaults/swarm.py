"""The way of a user: node.init makes a task of one site's file, and the sites learn with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from benchmarks.defaults.sites import TARGET, Split, write
from benchmarks.proposed import proposed
from node.api.swarm import Swarm as NodeSwarm
from node.data.dataset import Dataset, own_rows
from node.data.sources import read_source
from node.errors import UserError
from node.task.load import load_task
from node.task.sections import Task
from node.training.figures.metrics import probabilities
from node.training.trainer import Diverged
from scenarios.swarms.replay import Swarm


def made_task(folder: Path, split: Split, kind: str, options: Sequence[str]) -> tuple[Task, list[Path], Path]:
    """Write the files; return the task that node.init makes of the first, all sites' files, the test file.

    Raises UserError if node.init fails.
    """
    files = [write(folder, f"site{number}", kind, site) for number, site in enumerate(split.sites)]
    test = write(folder, "test", kind, split.test)
    target = ["--target", TARGET] if kind == "csv" else []
    out = proposed(files[0], folder / "task.toml", *target, "--peers", "3", *options)
    return load_task(str(out), []), files, test


def rows_of(task: Task, files: Sequence[Path], test: Path) -> list[Dataset]:
    """Return each site's rows as its node reads them, with the common test rows for evaluation."""
    common = read_source(test, task)
    x, y = torch.from_numpy(common.x), torch.from_numpy(common.y)
    own = [own_rows(read_source(file, task), task) for file in files]
    return [replace(rows, test_x=x, test_y=y, accuracy_name="test") for rows in own]


def answers(task: Task, datasets: Sequence[Dataset]) -> NDArray[np.float64]:
    """Train a swarm with the nodes' own code; return what its model answers for the test rows.

    These are probabilities (n, k), or numbers (n,) as the task scales them. If training diverges, the answers
    are the same for each row.
    """
    classes = datasets[0].classes
    try:
        swarm = learned(task, datasets)
    except Diverged:
        rows = len(datasets[0].test_y)
        return np.zeros(rows if classes is None else (rows, classes))
    return answered(swarm.trainers[0].module(swarm.base), datasets[0])


def learned(task: Task, datasets: Sequence[Dataset]) -> Swarm:
    """Return a swarm after all rounds of the task. Raises Diverged."""
    swarm = Swarm(task, datasets, salt=0)
    for number in range(1, task.train.rounds + 1):
        swarm.round(number)
    return swarm


def answered(model: nn.Module, dataset: Dataset) -> NDArray[np.float64]:
    """Return what a model answers for the test rows, as `answers`."""
    with torch.inference_mode():
        outputs = model(dataset.test_x)
    return outputs.reshape(-1).double().numpy() if dataset.classes is None else probabilities(outputs)


def answers_of_nodes(task: Task, files: Sequence[Path], dataset: Dataset) -> NDArray[np.float64]:
    """Do the same with real nodes on loopback, each with the file of a site. Raises UserError."""
    results = NodeSwarm.local(len(files), task, list(files), alone="no").run()
    if not results.agreed:
        raise UserError("the nodes ended with different models")
    return answered(results.model, dataset)
