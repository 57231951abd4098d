"""Gradients of single rows in full, and the models that have none.

`PerExample` uses torch.func: `vmap` over a functional call gives each row its own copy of the parameters, so
that one ordinary backward pass returns each row's gradient. It is right for most models (not for an embedding
with `padding_idx`, for example); `OneByOne` is right for all, and slow. `book_keeping` is faster where it
fits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from mechanisms.gradients.layers import RowGradients, Rows, in_float64

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Maps (outputs, targets) of a batch, here always a batch of one, to its mean loss."""


class PerExample:
    """Gradients of `parameters`, by name, for the rows of a batch: each row's in full, for any model."""

    def __init__(self, model: nn.Module, parameters: Mapping[str, nn.Parameter], loss: Loss) -> None:
        self._model, self._parameters, self._loss = model, dict(parameters), loss

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> tuple[dict[str, RowGradients], torch.Tensor]:
        """Returns the gradients by parameter name, and the (K,) losses, for x (K, ...) and y (K, ...)."""
        rows = len(x)
        own = {
            name: parameter.detach().expand(rows, *parameter.shape).requires_grad_()
            for name, parameter in self._parameters.items()
        }
        with torch.enable_grad(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
            losses = vmap(self._loss_of_one, randomness="different")(own, x, y)
            gradients = torch.autograd.grad(losses.sum(), list(own.values()), materialize_grads=True)
        return {
            name: Rows(in_float64(gradient).reshape(rows, -1))
            for name, gradient in zip(own, gradients, strict=True)
        }, losses.detach()

    def _loss_of_one(
        self, own: Mapping[str, torch.Tensor], row: torch.Tensor, target: torch.Tensor
    ) -> torch.Tensor:
        outputs = functional_call(self._model, dict(own), (row.unsqueeze(0),))
        return self._loss(outputs, target.unsqueeze(0))


class OneByOne:
    """Gradients of `parameters`, by name, by an ordinary backward pass for each row."""

    def __init__(self, model: nn.Module, parameters: Mapping[str, nn.Parameter], loss: Loss) -> None:
        self._model, self._parameters, self._loss = model, dict(parameters), loss

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> tuple[dict[str, RowGradients], torch.Tensor]:
        """Returns the gradients by parameter name, and the (K,) losses, for x (K, ...) and y (K, ...)."""
        pairs = [self._gradient(x[row : row + 1], y[row : row + 1]) for row in range(len(x))]
        return {
            name: Rows(torch.stack([gradients[place] for gradients, _ in pairs]))
            for place, name in enumerate(self._parameters)
        }, torch.stack([loss for _, loss in pairs])

    def _gradient(self, x: torch.Tensor, y: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        with torch.enable_grad():
            loss = self._loss(self._model(x), y)
            gradients = torch.autograd.grad(loss, list(self._parameters.values()), materialize_grads=True)
        return [in_float64(gradient).flatten() for gradient in gradients], loss.detach()


def check_parameters(model: nn.Module, parameters: Mapping[str, nn.Parameter]) -> None:
    """Raises ValueError for no parameter or a layer that mixes rows, TypeError if one is not float32."""
    if not parameters:
        raise ValueError("parameters is empty; allowed: at least one of the model's parameters")
    for name, parameter in parameters.items():
        if parameter.dtype != torch.float32:
            raise TypeError(f"parameter {name!r} holds {parameter.dtype}; allowed: torch.float32")
    check_layers(model)


def check_layers(model: nn.Module) -> None:
    """Raises ValueError for a layer that mixes the rows of a batch, in the model's current mode."""
    for name, layer in model.named_modules():
        if _mixes_rows(layer):
            raise ValueError(
                f"layer {name!r} ({type(layer).__name__}) takes its statistics from the batch: no row has "
                "a gradient of its own; allowed: nn.GroupNorm or nn.LayerNorm, or batch norm that is not "
                "trained"
            )


def _mixes_rows(layer: nn.Module) -> bool:
    tracks = getattr(layer, "running_mean", None) is not None
    if isinstance(layer, _BatchNorm):
        return layer.training or not tracks
    return isinstance(layer, _InstanceNorm) and layer.training and tracks
