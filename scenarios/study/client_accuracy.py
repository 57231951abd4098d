"""The accuracy of one model for each client: the worst, the tenth percentile, and the spread.

Clients of a study have no test rows of their own: all share the common ones. So a client's accuracy is that
on test rows weighted by the distribution of its own labels,

    accuracy_k = sum over labels c of p_k(c) accuracy(c)

which is its accuracy on rows like its own if rows with the same label are alike at all clients, the
assumption of label shift (Lipton, Wang & Smola 2018, arXiv:1802.03916, sec. 2). Other differences between
clients do not show. Li et al. 2020 (arXiv:1905.10497, sec. 4) judge fairness by the worst clients and the
variance over all; here it is the standard deviation, in the unit of accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from node.training.figures.metrics import chosen_labels
from scenarios.study.cells import Fact
from scenarios.study.skew import Counts

WORST, TENTH, SPREAD = (
    "accuracy of the worst client",
    "accuracy, tenth percentile of the clients",
    "spread of accuracy over the clients",
)
"""Names of facts."""
TESTED, CORRECT = "test rows by label", "correct test rows by label"
"""Names of series, with a number for each label."""
_LOW = 10
"""The percentile of the clients with low accuracy."""


def by_label(outputs: torch.Tensor, targets: torch.Tensor, classes: int) -> dict[str, tuple[float, ...]]:
    """The series of a model's `outputs` (n, ...) for test rows with labels `targets` (n,).

    Empty if targets are numbers.
    """
    if targets.is_floating_point():
        return {}
    tested = torch.bincount(targets, minlength=classes)
    correct = torch.bincount(targets[chosen_labels(outputs) == targets], minlength=classes)
    return {TESTED: tuple(map(float, tested.tolist())), CORRECT: tuple(map(float, correct.tolist()))}


def client_accuracies(series: Mapping[str, tuple[float, ...]], counts: Counts) -> NDArray[np.float64]:
    """(clients,) accuracies of the model that `series` is about; a label without test rows does not count.

    NaN for a client that has no row with a tested label.
    """
    tested, correct = np.array(series[TESTED]), np.array(series[CORRECT])
    there = tested > 0
    accuracy = correct[there] / tested[there]
    own = counts[:, there].astype(np.float64)
    rows = own.sum(axis=1)
    found: NDArray[np.float64] = np.divide(
        own @ accuracy, rows, out=np.full(len(counts), np.nan), where=rows > 0
    )
    return found


def accuracy_facts(series: Mapping[str, tuple[float, ...]], counts: Counts) -> dict[str, Fact]:
    """The facts about clients with these `counts`; {} if the series have no accuracies by label."""
    if TESTED not in series:
        return {}
    found = client_accuracies(series, counts)
    found = found[~np.isnan(found)]
    if not len(found):
        return {}
    return {
        WORST: float(found.min()),
        TENTH: float(np.percentile(found, _LOW)),
        SPREAD: float(found.std()),
    }
