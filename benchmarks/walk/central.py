"""What the walk stands beside: central DP-SGD and plain logistic regression, on the rows of all hospitals.

Both have what a swarm has not: all rows in one place as plain numbers, their exact means and spreads, and no
row held back. Central DP-SGD spends the whole epsilon on learning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.rates.cases import Case
from benchmarks.rates.simulation import Settings, private_metric
from benchmarks.walk.rows import Hospitals, features, ill
from node.data.dataset import Dataset
from node.task.step_defaults import step_defaults
from scenarios.study.threads import one_thread

_HIDDEN = 32  # what node.init proposes for so many rows
_ALONE = 2
"""Members, both honest: together they add the noise of a trusted server, n / (H + 1) = 1 times."""


def central_auc(rows: Hospitals, kind: str, epsilon: float, factor: float, seed: int) -> float:
    """Return the AUC of the new rows by a trusted server's DP-SGD, at `factor` times the table's rate.

    `kind`: "MLP", which node.init proposes, or "Linear".
    """
    pooled = _pooled_rows(rows)
    steps = step_defaults(len(pooled.train_y), epsilon, frozen_body=False)
    steps = replace(steps, learning_rate=steps.learning_rate * factor)
    settings = Settings(epsilon, _ALONE, _ALONE - 1, steps)
    with one_thread():
        return private_metric(settings, _case(kind, pooled.train_x.shape[1]), pooled, seed)


def plain_auc(rows: Hospitals) -> float:
    """Return the AUC of the new rows by logistic regression without privacy on all sites' old rows."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(features(rows.old), ill(rows.old))
    return auc(rows, model.predict_proba(features(rows.new))[:, 1])


def auc(rows: Hospitals, chances: NDArray[np.float64]) -> float:
    """Return the AUC of `chances` (n,): P(ill) of each new row, site by site."""
    return float(roc_auc_score(ill(rows.new), chances))


def _pooled_rows(rows: Hospitals) -> Dataset:
    scaler = StandardScaler().fit(features(rows.old))
    train_x, test_x = (
        torch.from_numpy(scaler.transform(features(sites)).astype(np.float32))
        for sites in (rows.old, rows.new)
    )
    train_y, test_y = (torch.from_numpy(ill(sites)) for sites in (rows.old, rows.new))
    return Dataset(train_x, train_y, test_x, test_y, "test", 2, "hospitals")


def _case(kind: str, width: int) -> Case:
    arguments: Mapping[str, Any] = (
        {"inputs": width, "outputs": 2} if kind == "Linear" else {"sizes": [width, _HIDDEN, 2]}
    )
    return Case("hospitals", "hospitals", f"node.models:{kind}", arguments, 3, 1, "auc", {})
