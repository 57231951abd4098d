"""Shadow models for membership inference: an attacker trains them on its own rows, all as one batch.

    attacker's rows ──random halves──▶ shadows, trained centrally ──▶ losses on the rows that are evaluated

The attacker knows what a member of the swarm knows: the model, its start and the training settings.
mechanisms.audits.shadows turns these losses into scores.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call
from torch.nn import functional

from node.data.partition import RowNumbers
from node.system.errors import UserError
from node.training.trainer import shapes, split_vector
from scenarios.clients.training import LocalTraining, Seed, train_clients
from scenarios.data.dataset import Integers

Floats = NDArray[np.float32]
Losses = NDArray[np.float64]

_BLOCK = 32
"""The most shadows that are trained as one batch."""
_JUDGED_ROWS = 4096
"""The most rows that are evaluated at once, to bound memory."""


def random_halves(rows: RowNumbers, shadows: int, rng: np.random.Generator) -> list[RowNumbers]:
    """For each shadow an independent random half of `rows` (n,), n at least 2."""
    if len(rows) < 2:
        raise ValueError(f"{len(rows)} rows are not allowed: at least 2, of which a shadow has a half")
    return [rng.permutation(rows)[: len(rows) // 2] for _ in range(shadows)]


def shadow_losses(
    model: nn.Module,
    start: Floats,
    rows_of_shadows: Sequence[RowNumbers],
    x: Floats,
    y: Integers,
    training: LocalTraining,
    seeds: Sequence[Seed],
    evaluated_x: Floats,
    evaluated_y: Integers,
) -> Losses:
    """(s, n) losses of evaluated rows (n, ...) under s shadows; shadow i is trained on rows_of_shadows[i].

    All shadows begin at `start` (d,); `x` (m, ...) and `y` (m,) are the attacker's rows; `seeds` determine
    the order of each shadow's rows. Raises UserError if a shadow is no longer finite.
    """
    vectors, _ = train_clients(
        model=model,
        start=start,
        rows_of_clients=rows_of_shadows,
        x=x,
        y=y,
        loss=functional.cross_entropy,
        training=training,
        seeds=seeds,
        after_batch=None,
        block=_BLOCK,
    )
    if not np.isfinite(vectors).all():
        raise UserError(
            f"training of a shadow model diverged; lower train.learning_rate = {training.learning_rate:g} "
            "or set train.grad_clip"
        )
    return np.stack([row_losses(model, vector, evaluated_x, evaluated_y) for vector in vectors])


def row_losses(model: nn.Module, vector: Floats, x: Floats, y: Integers) -> Losses:
    """(n,) cross-entropy of each row x (n, ...) with label y (n,) under the parameters `vector` (d,).

    The model's own parameters do not change. Logits are float32, losses are computed in float64.
    """
    parts = split_vector(vector, shapes(model, "*"))
    parameters = {name: torch.from_numpy(np.array(part)) for name, part in parts.items()}
    found = []
    with torch.inference_mode():
        for begin in range(0, len(y), _JUDGED_ROWS):
            part = slice(begin, begin + _JUDGED_ROWS)
            outputs = functional_call(model, parameters, (torch.from_numpy(np.array(x[part])),))
            found.append(_cross_entropy(outputs.double().numpy(), y[part]))
    return np.concatenate(found)


def _cross_entropy(outputs: Losses, labels: Integers) -> Losses:
    """(n,) log(1 + sum of e^(other - true)) from logits (n, classes); this keeps small losses above 0."""
    true = np.take_along_axis(outputs, labels[:, None], axis=1)
    gaps = outputs - true
    np.put_along_axis(gaps, labels[:, None], -np.inf, axis=1)
    losses: Losses = np.logaddexp(0, np.logaddexp.reduce(gaps, axis=1))
    return losses
