"""What a trusted server would sum up: a slow second implementation, in float64, of single rows."""

from __future__ import annotations

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, grad, vmap

from mechanisms.gradients.objective import Loss

_AT_ONCE = 256


class Reference:
    """Sums up the clipped gradients of single rows, by vmap over a float64 copy of the model."""

    def __init__(self, model: nn.Module, loss: Loss, radius: float) -> None:
        """`radius`: the clip C of a row's gradient, in the L2 norm over all trainable parameters."""
        self._model = copy.deepcopy(model).double()
        self._loss, self._radius = loss, radius
        self._names = [name for name, value in self._model.named_parameters() if value.requires_grad]

    def __call__(
        self, parameters: NDArray[np.float32], x: torch.Tensor, y: torch.Tensor
    ) -> NDArray[np.float64]:
        """Return the sum (d,) over the rows x (n, ...), y (n,), at these parameters (d,)."""
        values = self._split(torch.from_numpy(parameters.astype(np.float64)))
        total = np.zeros(len(parameters))
        for start in range(0, len(x), _AT_ONCE):
            total += self._part(values, x[start : start + _AT_ONCE], y[start : start + _AT_ONCE])
        return total

    def _split(self, parameters: torch.Tensor) -> dict[str, torch.Tensor]:
        shapes = dict(self._model.named_parameters())
        parts = torch.split(parameters, [shapes[name].numel() for name in self._names])
        return {name: part.view(shapes[name].shape) for name, part in zip(self._names, parts, strict=True)}

    def _part(self, values: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> NDArray[np.float64]:
        def loss(given: dict[str, torch.Tensor], row: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return self._loss(functional_call(self._model, given, (row[None],)), target[None])

        found = vmap(grad(loss), in_dims=(None, 0, 0))(values, x.double(), y)
        rows = torch.cat([found[name].flatten(1) for name in self._names], dim=1).numpy()
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray((rows * np.minimum(1.0, self._radius / np.maximum(lengths, 1e-300))).sum(axis=0))
