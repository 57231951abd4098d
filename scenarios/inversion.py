"""Gradient inversion: from the update of one step on one row back to that row.

Two ways. A linear first layer gives its input away exactly: of one row, dL/dW_i = dL/db_i x, so x is the
quotient of the two (Phong et al. 2018, "Privacy-preserving deep learning via additively homomorphic
encryption", section 3). For any other model a row is searched whose gradient points the same way (Geiping et
al. 2020, "Inverting gradients", (4): cosine distance, and total variation for images).

It is here to show what a secure sum and noise prevent. The quotient gives a mixture of the rows in a sum. The
search, if it knows the label, still finds a row in the sum of three updates of one row each, where the labels
differ: a sum of few rows' gradients is no protection by itself. Many rows and steps in each update are, and
noise is.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call

from mechanisms.arguments import at_least_zero, count, positive
from mechanisms.per_example import Loss
from node.training import shapes, split_vector

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


def matching_row(
    model: nn.Module,
    start: Floats,
    gradient: Floats,
    label: int,
    loss: Loss,
    shape: tuple[int, ...],
    steps: int,
    variation: float,
    rng: np.random.Generator,
) -> Floats:
    """A row of `shape`, from 0 to 1, whose gradient at `start` (d,) points as `gradient` (d,) does.

    `label`: of the row, which the gradient of the last layer tells (Zhao et al. 2020, "iDLG"). `variation`
    weighs the total variation of rows that are images (..., height, width). Adam on signs of the gradient,
    with falling steps, as published; the best row that was met is returned.
    """
    names = [name for name, _ in shapes(model, "*")]
    parts = split_vector(start, shapes(model, "*"))
    own = {name: torch.from_numpy(parts[name].copy()).requires_grad_() for name in names}
    wanted = torch.from_numpy(np.array(gradient))
    row = torch.from_numpy(rng.random(shape).astype(np.float32)).requires_grad_()
    optimizer = torch.optim.Adam([row], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, count("steps", steps))
    weight, best, least = at_least_zero("variation", variation), row.detach().clone(), float("inf")
    for _ in range(steps):
        distance = _distance(model, own, row, label, loss, wanted)
        if distance.item() < least:
            best, least = row.detach().clone(), distance.item()
        optimizer.zero_grad()
        (row.grad,) = torch.autograd.grad(distance + weight * _variation(row), [row])
        row.grad.sign_()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            row.clamp_(0, 1)
    return best.numpy()


def _distance(
    model: nn.Module,
    own: Mapping[str, torch.Tensor],
    row: torch.Tensor,
    label: int,
    loss: Loss,
    wanted: torch.Tensor,
) -> torch.Tensor:
    """1 - cosine of the angle between the row's gradient and the one that was seen."""
    outputs = functional_call(model, dict(own), (row[None],))
    found = torch.autograd.grad(loss(outputs, torch.tensor([label])), list(own.values()), create_graph=True)
    flat = torch.cat([part.flatten() for part in found])
    norms = flat.norm() * wanted.norm()
    return 1 - (flat @ wanted) / norms.clamp(min=torch.finfo(torch.float32).tiny)


def _variation(row: torch.Tensor) -> torch.Tensor:
    """Mean absolute difference of neighbours, for images; 0 for rows without a height and a width."""
    if row.dim() < 2:
        return torch.zeros(())
    return (row[..., 1:, :] - row[..., :-1, :]).abs().mean() + (row[..., 1:] - row[..., :-1]).abs().mean()


def label_of(last_bias_gradient: Floats) -> int:
    """The row's label: the negative entry of the last bias's gradient, which is softmax minus one-hot."""
    return int(last_bias_gradient.argmin())


def similarity(found: Floats, truth: Floats) -> float:
    """The cosine between two rows, each less its mean; 1: the same up to scale and brightness."""
    one, other = (row.astype(np.float64).ravel() - row.mean() for row in (found, truth))
    norms = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / norms) if norms > 0 else 0.0
