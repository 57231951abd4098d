"""Lab: hospitals' exports with limits and several spellings, beside logistic regression on all rows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.spec import Scores
from benchmarks.walk.central import plain_auc
from benchmarks.walk.hospitals import HEADER, SITES, TARGET, Rows, write
from benchmarks.walk.rows import hospitals
from node.data.dataset import own_rows
from node.data.rows import Rows as SourceRows
from node.data.sources import read_source
from node.task.load import load_task
from node.task.sections import Task
from scenarios.study.threads import one_thread
from scenarios.tables.learning import train_swarm
from scenarios.tables.proposal import propose_task

_ROWS = 1900
_LIMIT = 2.5
"""Smaller values are written as <2,5."""
_CRP, _WARD = HEADER.index("CRP"), HEADER.index("Station")
_SPELLINGS: Sequence[Callable[[str], str]] = (str.upper, str.lower, str)


def odd_rows(rows: Rows, seed: int) -> Rows:
    """Return the rows with limits of detection, and each ward in capitals, in small letters or as it is."""
    spellings = np.random.default_rng([31, seed]).integers(len(_SPELLINGS), size=len(rows.cells))
    cells = [_odd_cells(row, _SPELLINGS[how]) for row, how in zip(rows.cells, spellings, strict=True)]
    return replace(rows, cells=cells)


def _odd_cells(row: tuple[str, ...], spell: Callable[[str], str]) -> tuple[str, ...]:
    cells, crp = list(row), row[_CRP].replace(",", ".")
    if crp.replace(".", "", 1).isdigit() and float(crp) < _LIMIT:
        cells[_CRP] = f"<{_LIMIT}".replace(".", ",")
    cells[_WARD] = spell(row[_WARD])
    return tuple(cells)


def lab_scores(seed: int) -> Scores:
    """Return the AUC of new rows: a swarm's, logistic regression's in its encoding and on plain numbers."""
    rows = hospitals(_ROWS, seed)
    with one_thread(), tempfile.TemporaryDirectory() as name:
        old, new = (
            [
                write(Path(name) / f"{site.name}-{what}.csv", site, odd_rows(part, 10 * seed + place))
                for place, (site, part) in enumerate(zip(SITES, parts, strict=True))
            ]
            for what, parts in (("old", rows.old), ("new", rows.new))
        )
        options = ("--target", TARGET, "--privacy", "none", "--come-and-go", "yes", "--peers", "3")
        task = load_task(str(propose_task(old[0], Path(name) / "task.toml", *options)), [])
        return {**_swarm_and_pooled(task, old, new), "auc plain numbers": plain_auc(rows)}


def _swarm_and_pooled(task: Task, old: Sequence[Path], new: Sequence[Path]) -> dict[str, float]:
    own, later = ([read_source(path, task) for path in paths] for paths in (old, new))
    (x, y), (test_x, test_y) = _join(own), _join(later)
    common = {"test_x": torch.from_numpy(test_x), "test_y": torch.from_numpy(test_y)}
    swarm = train_swarm(task, [replace(own_rows(one, task), **common) for one in own])  # type: ignore[arg-type]
    outputs = swarm.answers()[0].numpy()
    pooled = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x, y)
    return {
        "auc": float(roc_auc_score(test_y, outputs[:, 1] - outputs[:, 0])),
        "auc pooled": float(roc_auc_score(test_y, pooled.predict_proba(test_x)[:, 1])),
    }


def _join(sources: Sequence[SourceRows]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([one.x for one in sources]), np.concatenate([one.y for one in sources])
