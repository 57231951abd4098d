"""Gradients of single examples, each clipped separately, then summed.

The module uses torch.func: `vmap` over a functional call that gives each example its own copy of the
parameters, so that one ordinary backward pass returns each example's gradient. torch.func is part of torch
and needs no change to the model; Opacus would be one more dependency and wraps the model and its layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, vmap
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from mechanisms.arguments import count, positive
from mechanisms.noise.clipping import NotFinite
from mechanisms.noise.noise import grid

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Maps (outputs, targets) of a batch, here always a batch of one, to its mean loss."""

_CHUNK_ELEMENTS = 1 << 24
# Above the rounding errors of a factor and of a product in float32, together 2^-23.
_MARGIN = 2.0**-22


def clipped_sum(
    model: nn.Module,
    parameters: Mapping[str, nn.Parameter],
    loss: Loss,
    x: torch.Tensor,
    y: torch.Tensor,
    radius: float,
    chunk_rows: int | None = None,
) -> tuple[dict[str, torch.Tensor], float]:
    """Returns the sum over rows of the clipped gradients, by parameter name, and the mean loss.

    `x` (n, ...), `y` (n, ...); see `summed_units` for the rest. Adding or removing a row moves the sums of
    all parameters together by at most `radius` in L2, plus float32's rounding of the sum.
    """
    spacing = grid(positive("radius", radius) * 2.0**-30, radius)  # as for almost no noise: float32's limit
    units, mean_loss = summed_units(model, parameters, loss, x, y, radius, spacing, chunk_rows)
    return dict(zip(parameters, split(units * spacing, parameters.values()), strict=True)), mean_loss


def summed_units(
    model: nn.Module,
    parameters: Mapping[str, nn.Parameter],
    loss: Loss,
    x: torch.Tensor,
    y: torch.Tensor,
    radius: float,
    spacing: float,
    chunk_rows: int | None = None,
) -> tuple[NDArray[np.float64], float]:
    """Returns ((d,) float64 integers: the sum of clipped gradients in units of `spacing`; the mean loss).

    The function clips each row's gradient over all `parameters` (names as in the model, d elements in all) to
    an L2 norm of `radius` and truncates it to multiples of `spacing` before it adds it. So sums are exact in
    any order, and adding or removing a row moves them by at most radius / spacing in L2. Without truncation,
    float sums can move further (Casacuberta et al. 2022). Without rows the loss is 0.

    It processes `chunk_rows` rows at a time, about 16 d bytes each; None: 2^24 elements, at least one row.
    Raises NotFinite if a gradient is not finite, ValueError for a layer that mixes rows, TypeError for
    parameters that are not float32.
    """
    _check(model, parameters)
    radius, spacing = positive("radius", radius), positive("spacing", spacing)
    size = sum(parameter.numel() for parameter in parameters.values())
    rows = max(1, _CHUNK_ELEMENTS // size) if chunk_rows is None else count("chunk_rows", chunk_rows)
    total, losses = torch.zeros(size, dtype=torch.float64), 0.0
    for start in range(0, len(x), rows):
        chunk = slice(start, start + rows)
        gradients, row_losses = _gradients(model, parameters, loss, x[chunk], y[chunk])
        losses += float(row_losses.sum(dtype=torch.float64))
        total += _cut(gradients, radius, spacing).sum(0, dtype=torch.float64)
    return total.numpy(), losses / max(1, len(x))


def split(vector: NDArray[np.float64], parameters: Iterable[nn.Parameter]) -> list[torch.Tensor]:
    """Splits `vector` (d,) into float32 tensors with the shapes of `parameters`."""
    whole = torch.from_numpy(vector.astype(np.float32))
    shapes = [parameter.shape for parameter in parameters]
    parts = torch.split(whole, [shape.numel() for shape in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def _gradients(
    model: nn.Module, parameters: Mapping[str, nn.Parameter], loss: Loss, x: torch.Tensor, y: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns ((n, d) float32 gradients of each row over all parameters, (n,) losses), both on the CPU."""

    def loss_of_one(own: Mapping[str, torch.Tensor], row: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return loss(functional_call(model, dict(own), (row.unsqueeze(0),)), target.unsqueeze(0))

    n = len(x)
    own = {
        name: parameter.detach().expand(n, *parameter.shape).requires_grad_()
        for name, parameter in parameters.items()
    }
    with torch.enable_grad():
        losses = vmap(loss_of_one, randomness="different")(own, x, y)
        gradients = torch.autograd.grad(losses.sum(), list(own.values()), materialize_grads=True)
    whole = torch.cat([gradient.reshape(n, -1) for gradient in gradients], 1)
    return whole.cpu(), losses.detach().cpu()  # sums are exact in float64, which not every device has


def _cut(gradients: torch.Tensor, radius: float, spacing: float) -> torch.Tensor:
    """Overwrites `gradients` (n, d): clips each row to `radius` and truncates it to units of `spacing`."""
    norms = torch.linalg.vector_norm(gradients, dim=1, keepdim=True, dtype=torch.float64)  # (n, 1)
    if not torch.isfinite(norms).all():
        raise NotFinite("the gradient of an example holds a NaN or an infinity")
    factors = (radius * (1 - _MARGIN) / norms).clamp_(max=1.0) / spacing
    whole: NDArray[np.float32] = gradients.mul_(factors.to(torch.float32)).numpy()
    np.trunc(whole, out=whole)  # in place like torch's own, and fifteen times as fast
    return gradients


def _check(model: nn.Module, parameters: Mapping[str, nn.Parameter]) -> None:
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
