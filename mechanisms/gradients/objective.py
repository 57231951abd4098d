"""What is differentiated: a model, its parameters, and the loss of a row. It refuses layers that mix rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from mechanisms.gradients.layers import in_float64
from mechanisms.gradients.side_effects import NotByRow

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Maps outputs and targets of a batch, here always of one row, to the mean loss."""


@dataclass(frozen=True)
class Objective:
    """A model, on its device and in its mode, the `parameters` to train, by their names in it, and the loss.

    `row`: x (1, ...) and y (1, ...) of any row, for shapes and types.
    """

    model: nn.Module
    parameters: Mapping[str, nn.Parameter]
    loss: Loss
    row: tuple[torch.Tensor, torch.Tensor]

    @property
    def sizes(self) -> list[int]:
        """The number of elements of each parameter; d in all."""
        return [parameter.numel() for parameter in self.parameters.values()]

    def check(self) -> None:
        """Raises ValueError without parameters or for a layer that mixes rows, TypeError unless float32."""
        if not self.parameters:
            raise ValueError("parameters is empty; allowed: at least one of the model's parameters")
        for name, parameter in self.parameters.items():
            if parameter.dtype != torch.float32:
                raise TypeError(f"parameter {name!r} holds {parameter.dtype}; allowed: torch.float32")
        check_layers(self.model)

    def zeros(self) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Returns a vector (d,) float64, on the device that computes products, and its views by parameter."""
        some = next(iter(self.parameters.values())).detach().flatten()[:0]
        vector = torch.zeros(sum(self.sizes), dtype=torch.float64, device=in_float64(some).device)
        return vector, dict(zip(self.parameters, torch.split(vector, self.sizes), strict=True))


def check_layers(model: nn.Module) -> None:
    """Raises NotByRow for a layer that mixes the rows of a batch in the model's current mode."""
    for name, layer in model.named_modules():
        if _mixes_rows(layer):
            raise NotByRow(
                f"layer {name!r} ({type(layer).__name__}) takes its statistics from the batch: no row has "
                "a gradient of its own; allowed: nn.GroupNorm or nn.LayerNorm, or batch norm that is not "
                "trained"
            )


def _mixes_rows(layer: nn.Module) -> bool:
    tracks = getattr(layer, "running_mean", None) is not None
    if isinstance(layer, _BatchNorm):
        return layer.training or not tracks
    return isinstance(layer, _InstanceNorm) and layer.training and tracks
