"""Gradient inversion: from the update of one step on one row back to that row.

Two ways. A linear first layer gives its input away exactly: of one row, dL/dW_i = dL/db_i x, so x is the
quotient of the two (Phong et al. 2018, "Privacy-preserving deep learning via additively homomorphic
encryption", section 3). For any other model a row is searched whose gradient points the same way (Geiping et
al. 2020, "Inverting gradients", (4): cosine distance, and total variation for images).

It is here to show what a secure sum and noise prevent. The quotient gives a mixture of the rows in a sum. The
search, if it knows the labels, finds the rows of a sum together, as long as they have clearly fewer numbers
than the gradient: a sum of few rows' gradients is no protection by itself. Many rows and steps in each update
are one against these two attacks, and noise is one against any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call

from mechanisms.arguments import at_least_zero, count, positive
from mechanisms.gradients.per_example import Loss
from node.training.trainer import shapes, split_vector

Floats = NDArray[np.float32]


def gradient_of_step(start: Floats, weights: Floats, learning_rate: float) -> Floats:
    """(d,): what one step of plain SGD from `start` to `weights` tells of the gradient."""
    exact = (start.astype(np.float64) - weights) / positive("learning_rate", learning_rate)
    return exact.astype(np.float32)


def first_layer_input(weight_gradient: Floats, bias_gradient: Floats) -> Floats:
    """The row (in,) from a linear layer's gradients (out, in) and (out,); zeros where they are zero."""
    loudest = int(np.abs(bias_gradient).argmax())
    if bias_gradient[loudest] == 0:
        return np.zeros(weight_gradient.shape[1], np.float32)
    quotient = weight_gradient[loudest].astype(np.float64) / float(bias_gradient[loudest])
    return quotient.astype(np.float32)


def matching_rows(
    model: nn.Module,
    start: Floats,
    gradient: Floats,
    labels: Sequence[int],
    loss: Loss,
    shape: tuple[int, ...],
    steps: int,
    variation: float,
    rng: np.random.Generator,
) -> Floats:
    """Rows (k, *shape), from 0 to 1, with `labels` (k,), whose gradient at `start` (d,) points as `gradient`.

    The gradient (d,) of one row tells its label (Zhao et al. 2020, "iDLG"); for a sum the attacker is taken
    to know them all, and the rows are searched together, in the order of the labels. `variation` weighs the
    total variation of rows that are images (..., height, width). Adam on signs of the gradient, with falling
    steps, as published; the best rows that were met are returned.
    """
    names = [name for name, _ in shapes(model, "*")]
    parts = split_vector(start, shapes(model, "*"))
    own = {name: torch.from_numpy(parts[name].copy()).requires_grad_() for name in names}
    wanted, known = torch.from_numpy(np.array(gradient)), torch.tensor(labels)
    rows = torch.from_numpy(rng.random((len(labels), *shape)).astype(np.float32)).requires_grad_()
    optimizer = torch.optim.Adam([rows], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, count("steps", steps))
    weight, best, least = at_least_zero("variation", variation), rows.detach().clone(), float("inf")
    for _ in range(steps):
        distance = _distance(model, own, rows, known, loss, wanted)
        if distance.item() < least:
            best, least = rows.detach().clone(), distance.item()
        optimizer.zero_grad()
        (rows.grad,) = torch.autograd.grad(distance + weight * _variation(rows), [rows])
        rows.grad.sign_()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            rows.clamp_(0, 1)
    return best.numpy()


def _distance(
    model: nn.Module,
    own: Mapping[str, torch.Tensor],
    rows: torch.Tensor,
    labels: torch.Tensor,
    loss: Loss,
    wanted: torch.Tensor,
) -> torch.Tensor:
    """1 - cosine of the angle between the rows' gradient and the one that was seen."""
    outputs = functional_call(model, dict(own), (rows,))
    found = torch.autograd.grad(loss(outputs, labels), list(own.values()), create_graph=True)
    flat = torch.cat([part.flatten() for part in found])
    norms = flat.norm() * wanted.norm()
    return 1 - (flat @ wanted) / norms.clamp(min=torch.finfo(torch.float32).tiny)


def _variation(rows: torch.Tensor) -> torch.Tensor:
    """Mean absolute difference of neighbours, for images; 0 for rows without a height and a width."""
    if rows.dim() < 3:
        return torch.zeros(())
    down, across = rows[..., 1:, :] - rows[..., :-1, :], rows[..., 1:] - rows[..., :-1]
    return down.abs().mean() + across.abs().mean()


def label_of(last_bias_gradient: Floats) -> int:
    """The row's label: the negative entry of the last bias's gradient, which is softmax minus one-hot."""
    return int(last_bias_gradient.argmin())


def similarity(found: Floats, truth: Floats) -> float:
    """The cosine between two rows, each less its mean; 1: the same up to scale and brightness."""
    one, other = (row.astype(np.float64).ravel() - row.mean() for row in (found, truth))
    norms = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / norms) if norms > 0 else 0.0


def guessed(truth: Floats, others: Floats, candidates: int) -> float:
    """The similarity with `truth` (...) that so many guesses reach without any update.

    `others` (n, ...): the rows of the same label that the attacker may have. The better of two ways: their
    mean; or the best of `candidates` rows drawn from them, in expectation.
    """
    found = np.sort([similarity(other, truth) for other in others])
    below = np.arange(len(found) + 1) / len(found)
    expected = float(found @ np.diff(below ** count("candidates", candidates)))
    return max(expected, similarity(others.mean(axis=0), truth))
