"""Gradients of single rows in full.

`PerExample` uses torch.func: `vmap` gives each row its own copy of the parameters, so that one ordinary
backward pass returns each row's gradient. It is right for most models (an embedding with `padding_idx` is an
exception). `OneByOne` is right for all, and slow. `book_keeping` is faster where it fits.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import torch
from torch.func import functional_call, vmap

from mechanisms.gradients.layers import RowGradients, Rows, in_float64
from mechanisms.gradients.objective import Objective


class PerExample:
    """Computes each row's gradient in full, by `vmap`; see `Method`."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> tuple[dict[str, RowGradients], torch.Tensor]:
        """Returns the gradients by parameter name, and the (K,) losses, for x (K, ...) and y (K, ...)."""
        rows = len(x)
        own = {
            name: parameter.detach().expand(rows, *parameter.shape).requires_grad_()
            for name, parameter in self._objective.parameters.items()
        }
        with torch.enable_grad(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
            losses = vmap(self._loss_of_one)(own, x, y)
            gradients = torch.autograd.grad(losses.sum(), list(own.values()), materialize_grads=True)
        return {
            name: Rows(in_float64(gradient).reshape(rows, -1))
            for name, gradient in zip(own, gradients, strict=True)
        }, losses.detach()

    def _loss_of_one(
        self, own: Mapping[str, torch.Tensor], row: torch.Tensor, target: torch.Tensor
    ) -> torch.Tensor:
        outputs = functional_call(self._objective.model, dict(own), (row.unsqueeze(0),))
        return self._objective.loss(outputs, target.unsqueeze(0))


class OneByOne:
    """Computes each row's gradient in full, by a backward pass of its own; see `Method`."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> tuple[dict[str, RowGradients], torch.Tensor]:
        """Returns the gradients by parameter name, and the (K,) losses, for x (K, ...) and y (K, ...)."""
        pairs = [self._gradient(x[row : row + 1], y[row : row + 1]) for row in range(len(x))]
        return {
            name: Rows(torch.stack([gradients[place] for gradients, _ in pairs]))
            for place, name in enumerate(self._objective.parameters)
        }, torch.stack([loss for _, loss in pairs])

    def _gradient(self, x: torch.Tensor, y: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        with torch.enable_grad():
            loss = self._objective.loss(self._objective.model(x), y)
            parameters = list(self._objective.parameters.values())
            gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
        return [in_float64(gradient).flatten() for gradient in gradients], loss.detach()
