"""Sites of a split as nodes have them: node.init proposes a task, and each site's rows are read by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import r2_score, roc_auc_score
from torch import nn

from node.data.dataset import Dataset
from node.data.sources import read_source
from node.task.data_schema import NumberColumn, TableSchema
from node.task.sections import Task
from scenarios.data.tables import Table
from scenarios.tables.learning import own_datasets, prepare_split
from scenarios.tables.sites import Split


@dataclass(frozen=True)
class Sites:
    """The task of a split, each site's file and its rows as its node reads them, and encoded test rows."""

    task: Task
    files: Sequence[Path]
    rows: list[Dataset]
    test_x: torch.Tensor
    test_y: NDArray[np.generic]

    def figure(self, model: nn.Module) -> float:
        """Return the AUC of a model's test rows, or R^2 for numbers."""
        with torch.inference_mode():
            outputs = model(self.test_x).double().numpy()
        scores = outputs[:, -1] - (outputs[:, 0] if outputs.shape[1:] == (2,) else 0)
        return figure_of(self.test_y, scores, self.rows[0].classes is not None)


def prepare(
    folder: Path, split: Split, whole: Table, kind: str, model: str, seed: int, held_back: float | None = None
) -> Sites:
    """Write a split's files of this `kind` to `folder`, and read them by the task that node.init proposes.

    Ranges of numbers are those of the `whole` table. `model`: what node.init is asked for; `held_back`: the
    share of its rows that a site does not learn from, None: the task's. Raises UserError.
    """
    options = ("--privacy", "none", "--model", model)
    proposed, files, test = prepare_split(folder, split, kind, options)
    task = _with_ranges(proposed, whole)
    share = task.data.test_fraction if held_back is None else held_back
    task = replace(task, data=replace(task.data, test_fraction=share))
    common, rows = read_source(test, task), own_datasets(task, files)
    seeded = replace(task, task=replace(task.task, seed=seed))
    return Sites(seeded, files, rows, torch.from_numpy(common.x), common.y)


def figure_of(truth: NDArray[np.generic], scores: NDArray[np.float64], is_classes: bool) -> float:
    """Return the AUC of scores (n,) for labels (n,), or R^2 of answers for numbers."""
    return float(roc_auc_score(truth, scores) if is_classes else r2_score(truth, scores))


def _with_ranges(task: Task, whole: Table) -> Task:
    """Return the task with the range of each column of numbers in `whole` as its public one."""
    schema = task.data.schema
    if not isinstance(schema, TableSchema):
        raise TypeError(f"task {task.task.name} is of no table")
    columns = tuple(
        _ranged(column, whole.columns[column.name].astype(np.float64))
        if isinstance(column, NumberColumn)
        else column
        for column in schema.columns
    )
    return replace(task, data=replace(task.data, schema=replace(schema, columns=columns)))


def _ranged(column: NumberColumn, cells: NDArray[np.float64]) -> NumberColumn:
    low, high = float(np.nanmin(cells)), float(np.nanmax(cells))
    return replace(column, low=low, high=high) if low < high else column
