"""A class of 3 %: its mean probability by a balanced model, and corrected by the task's prior."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.spec import Scores
from node.training.figures.calibration import calibration_of
from node.training.figures.metrics import probabilities
from scenarios.data.tables import Table, TableSet
from scenarios.study.threads import one_thread
from scenarios.tables.learning import prepare_split, rows_of, train_swarm
from scenarios.tables.sites import split_of

_ROWS, _SEED = 6000, 29
_LOG_ODDS = -4.35
"""The log odds of yes in a row of zeros."""


def rare_class(_: Path) -> Table:
    """Return rows of four numbers; the target of about 3 % of the rows is yes."""
    rng = np.random.default_rng(_SEED)
    x = rng.normal(size=(_ROWS, 4))
    logits = _LOG_ODDS + 1.1 * x[:, 0] - 0.8 * x[:, 1] + 0.4 * x[:, 2]
    y = np.where(rng.random(_ROWS) < 1 / (1 + np.exp(-logits)), "yes", "no")
    return Table(y, {f"x{place}": cells.round(4) for place, cells in enumerate(x.T)})


def rare_scores(number: int) -> Scores:
    """Return the figures of split `number`: mean P(yes) and log loss, balanced and corrected, and AUC."""
    data = TableSet("rare", rare_class)
    split = split_of(data, data.read(Path()), number)
    with one_thread(), tempfile.TemporaryDirectory() as files:
        task, sites, test = prepare_split(Path(files), split, "csv", ("--privacy", "none"))
        swarm = train_swarm(task, rows_of(task, sites, test))
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
