"""Figures of a federated cell's last model besides its accuracy; a cell lists them by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms.audits.membership import Losses, auc, best_threshold, halves, rates
from mechanisms.audits.shadows import Shadows, calibrated_losses
from mechanisms.noise.clipping import Floats
from mechanisms.noise.randomness import SeededWords
from node.training.trainer import write_vector
from scenarios.clients.poisons import Backdoor
from scenarios.federated.excess import Objective, excess_loss
from scenarios.federated.shadow_models import random_halves, row_losses, shadow_losses
from scenarios.study.cells import Fact

if TYPE_CHECKING:
    from scenarios.clients.work import ClientWork

SHADOWS = 8
_MEMBERSHIP = 22  # a stream of random numbers: [this, seed, ...]

BALANCED, AUC, MAJORITY, BACKDOOR = "balanced accuracy", "AUC", "majority rate", "attack success"
EXCESS = "excess loss"


def logits(work: ClientWork, model: Floats, x: Floats) -> NDArray[np.float64]:
    """The logits (n, classes) of rows `x` (n, ...) under `model` (d,)."""
    write_vector(work.model, model, "*")
    work.model.eval()
    with torch.no_grad():
        outputs: torch.Tensor = work.model(torch.from_numpy(x))
    return outputs.double().numpy()


def ranking(work: ClientWork, model: Floats) -> Mapping[str, Fact]:
    """Figures on the test rows of two classes that stay meaningful if one class is rare."""
    from sklearn.metrics import balanced_accuracy_score as balanced  # noqa: PLC0415  a slow import
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415

    y, outputs = work.dataset.test_y, logits(work, model, work.dataset.test_x)
    return {
        BALANCED: float(balanced(y, outputs.argmax(axis=1))),
        AUC: float(roc_auc_score(y, outputs[:, 1] - outputs[:, 0])),
        MAJORITY: float(np.bincount(y).max() / len(y)),
    }


def backdoor(work: ClientWork, model: Floats) -> Mapping[str, Fact]:
    """The share of test rows with the trigger and another label that the model classifies as the target."""
    poison = work.cell.attackers.poison
    if not isinstance(poison, Backdoor):
        return {}
    triggered = poison.trigger.put_on(work.dataset.test_x)
    predicted = logits(work, model, triggered).argmax(axis=1)
    return {BACKDOOR: poison.trigger.success(predicted, work.dataset.test_y)}


def membership(work: ClientWork, model: Floats) -> Mapping[str, Fact]:
    """How well an attacker tells honest clients' rows from similar ones, by loss and by shadow models.

    The attacker has a part of the test rows, enough for shadows of the same size; the rest of them are the
    non-members. Thresholds are chosen on one half of the rows and evaluated on the other. Empty if the
    training rows are in other processes, as with real nodes.
    """
    rows, data = honest_rows(work), work.dataset
    if len(data.train_y) <= rows.max():
        return {}
    rng = np.random.default_rng([_MEMBERSHIP, work.cell.seed])
    own, others = np.split(rng.permutation(len(data.test_y)), [min(2 * len(rows), len(data.test_y) // 2)])
    found = Losses(
        row_losses(work.model, model, data.train_x[rows], data.train_y[rows]),
        row_losses(work.model, model, data.test_x[others], data.test_y[others]),
    )
    training = replace(work.training, epochs=work.training.epochs * work.cell.rounds, proximal_mu=0.0)
    losses = shadow_losses(
        model=work.model,
        start=work.start,
        rows_of_shadows=random_halves(own, SHADOWS, rng),
        x=data.test_x,
        y=data.test_y,
        training=training,
        seeds=[(_MEMBERSHIP, work.cell.seed, shadow) for shadow in range(SHADOWS)],
        evaluated_x=np.concatenate([data.train_x[rows], data.test_x[others]]),
        evaluated_y=np.concatenate([data.train_y[rows], data.test_y[others]]),
    )
    shadows = Shadows(*np.split(losses, [len(rows)], axis=1))
    words = SeededWords(rng)
    return {
        **told("membership", found, words),
        **told("calibrated membership", calibrated_losses(found, shadows), words),
    }


def excess(work: ClientWork, model: Floats) -> Mapping[str, Fact]:
    """By how much the loss of honest clients' original rows, weight decay included, exceeds the least one.

    For convex models. Empty if the training rows are in other processes, as with real nodes.
    """
    rows, data = honest_rows(work), work.dataset
    if len(data.train_y) <= rows.max():
        return {}
    decay = work.training.weight_decay
    objective = Objective(work.model, data.train_x[rows], data.train_y[rows], decay)
    return {EXCESS: excess_loss(objective, model)}


def honest_rows(work: ClientWork) -> NDArray[np.int64]:
    """The training rows of clients that do not attack, (n,)."""
    return np.concatenate([part for client, part in enumerate(work.parts) if client not in work.attackers])


def told(name: str, losses: Losses, words: SeededWords) -> Mapping[str, Fact]:
    """The AUC, and the accuracy with a threshold that is chosen on the other half of the rows."""
    chosen, counted = halves(losses, words)
    found = rates(counted, best_threshold(chosen))
    return {f"{name} accuracy": (1 + found.advantage) / 2, f"{name} AUC": auc(losses)}


MEASURES: Mapping[str, Callable[[ClientWork, Floats], Mapping[str, Fact]]] = {
    "ranking": ranking,
    "backdoor": backdoor,
    "membership": membership,
    "excess": excess,
}
"""Measures by name; each is called with a cell's work and its last model (d,)."""


def measures_of(work: ClientWork, model: Floats) -> dict[str, Fact]:
    """The figures of all measures that the cell lists."""
    found: dict[str, Fact] = {}
    for name in work.cell.measures:
        found |= MEASURES[name](work, model)
    return found
