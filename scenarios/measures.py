"""Figures of a federated cell's last model beside its accuracy, by the names that a cell asks for them by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from mechanisms.clipping import Floats
from node.training import write_vector
from scenarios.attackers import Backdoor
from scenarios.cells import Fact

if TYPE_CHECKING:
    from scenarios.federated import ClientWork

BALANCED, AUC, MAJORITY, BACKDOOR = "balanced accuracy", "AUC", "majority rate", "attack success"


def logits(work: ClientWork, model: Floats, x: Floats) -> NDArray[np.float64]:
    """(n, classes) of rows `x` (n, ...)."""
    write_vector(work.model, model, "*")
    work.model.eval()
    with torch.no_grad():
        outputs: torch.Tensor = work.model(torch.from_numpy(x))
    return outputs.double().numpy()


def ranking(work: ClientWork, model: Floats) -> Mapping[str, Fact]:
    """On the test rows of two classes: what accuracy hides where one class is rare."""
    y, outputs = work.dataset.test_y, logits(work, model, work.dataset.test_x)
    return {
        BALANCED: float(balanced_accuracy_score(y, outputs.argmax(axis=1))),
        AUC: float(roc_auc_score(y, outputs[:, 1] - outputs[:, 0])),
        MAJORITY: float(np.bincount(y).max() / len(y)),
    }


def backdoor(work: ClientWork, model: Floats) -> Mapping[str, Fact]:
    """Of test rows that bear the attackers' trigger, and are not of its target, the share taken for it."""
    poison = work.cell.attackers.poison
    if not isinstance(poison, Backdoor):
        return {}
    triggered = poison.trigger.put_on(work.dataset.test_x)
    predicted = logits(work, model, triggered).argmax(axis=1)
    return {BACKDOOR: poison.trigger.success(predicted, work.dataset.test_y)}


MEASURES: Mapping[str, Callable[[ClientWork, Floats], Mapping[str, Fact]]] = {
    "ranking": ranking,
    "backdoor": backdoor,
}
"""Each takes a cell's work and its last model (d,)."""


def measures_of(work: ClientWork, model: Floats) -> dict[str, Fact]:
    """All that the cell asks for."""
    found: dict[str, Fact] = {}
    for name in work.cell.measures:
        found |= MEASURES[name](work, model)
    return found
