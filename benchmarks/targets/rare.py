"""A class of 3 %: what a balanced model says of it, and what the correction by the task's prior leaves."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.defaults.sites import split_of
from benchmarks.defaults.swarm import learned, made_task, rows_of
from benchmarks.defaults.tables import DataSet, Table
from benchmarks.spec import Scores
from node.training.figures.calibration import calibration_of
from node.training.figures.metrics import probabilities
from scenarios.study.threads import one_thread

_ROWS, _SEED = 6000, 29
_ODDS = -4.35
"""The logarithm of the odds of a row in the middle."""


def rare(_: Path) -> Table:
    """Rows of four numbers, of which about 3 % say yes."""
    rng = np.random.default_rng(_SEED)
    x = rng.normal(size=(_ROWS, 4))
    logits = _ODDS + 1.1 * x[:, 0] - 0.8 * x[:, 1] + 0.4 * x[:, 2]
    y = np.where(rng.random(_ROWS) < 1 / (1 + np.exp(-logits)), "yes", "no")
    return Table(y, {f"x{place}": cells.round(4) for place, cells in enumerate(x.T)})


def rare_scores(number: int) -> Scores:
    """Return the mean chance of yes in the test rows of split `number`, before and after; log losses, AUC."""
    data = DataSet("rare", rare)
    split = split_of(data, data.read(Path()), number)
    with one_thread(), tempfile.TemporaryDirectory() as files:
        task, sites, test = made_task(Path(files), split, "csv", ("--privacy", "none"))
        swarm = learned(task, rows_of(task, sites, test))
    outputs, labels = swarm.answers()
    corrected = calibration_of(task.train.loss, task.train.loss_args, 2).applied(outputs)
    before, after = (probabilities(each)[:, 1] for each in (outputs, corrected))
    wanted = labels.numpy()
    return {
        "share": float(wanted.mean()),
        "balanced": float(before.mean()),
        "corrected": float(after.mean()),
        "log loss balanced": float(log_loss(wanted, before)),
        "log loss corrected": float(log_loss(wanted, after)),
        "auc": float(roc_auc_score(wanted, after)),
    }
