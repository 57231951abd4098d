"""Low-rank adapters of a model whose own parameters stay as they are.

    W x + (alpha / rank) B A x         A (rank, inputs): drawn under task.seed, fixed, alike at all peers
                                       B (outputs, rank): trained and summed, 0 at first

As A is the same everywhere, the mean of all members' B is the mean of their weights. The mean of products of
two trained factors would not be the product of their means. FFA-LoRA: Sun et al. 2024, arXiv:2403.12313.
B is a linear layer of its own, for which gradients of single rows are cheap: with noise on gradients it is
the only thing that is noised.
"""

from __future__ import annotations

import math
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

_TRANSPOSED = "transformers.pytorch_utils", "Conv1D"
"""The linear layer of GPT-2, whose weight is (inputs, outputs)."""


def with_adapters(model: nn.Module, layers: str = "*", rank: int = 8, alpha: float = 16.0) -> nn.Module:
    """Returns `model`, frozen, with adapters of its linear layers whose names the pattern `layers` matches.

    Its tensors keep their names. Dropout in it is off: what is not trained needs none, and a mask that is
    drawn for each place of a batch leaves no row a gradient of its own. Draws from torch's generator, which
    has task.seed while a node makes a model. Layers that other code computes from their weights, such as
    those inside nn.MultiheadAttention, are no nn.Linear and have none. Raises ValueError if no layer matches,
    or a rank is above the width of a layer.

    >>> model = with_adapters(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)), "0", rank=2)
    >>> [name for name, value in model.named_parameters() if value.requires_grad]
    ['0.lora_B.weight']
    """
    found: list[tuple[str, Any, tuple[int, int]]] = [
        (name, layer, sizes)
        for name, layer in model.named_modules()
        if name and fnmatchcase(name, layers) and (sizes := _sizes(layer)) is not None
    ]
    if not found:
        raise ValueError(f"layers = {layers!r} matches no linear layer")
    model.requires_grad_(False)
    for name, layer, (inputs, outputs) in found:
        if not 1 <= rank <= min(inputs, outputs):
            raise ValueError(
                f"rank = {rank} is refused for the layer {name}; allowed: 1 to {min(inputs, outputs)}"
            )
        layer.lora_A = nn.Parameter(torch.empty(rank, inputs), requires_grad=False)
        nn.init.kaiming_uniform_(layer.lora_A, a=math.sqrt(5))
        layer.lora_B = nn.Linear(rank, outputs, bias=False)
        nn.init.zeros_(layer.lora_B.weight)
        layer.scaling = alpha / rank
        layer.register_forward_hook(_adapted)
    for part in model.modules():
        if isinstance(part, _DropoutNd):
            part.p = 0.0
        elif isinstance(part, nn.MultiheadAttention):
            part.dropout = 0.0
        elif isinstance(part, nn.TransformerEncoder):
            part.use_nested_tensor = False  # masked rows as one piece, which its layers take without adapters
    return model


def _sizes(layer: nn.Module) -> tuple[int, int] | None:
    """Returns how many inputs and outputs a linear layer has; None for another layer."""
    if type(layer) is nn.Linear:
        return layer.in_features, layer.out_features
    if (type(layer).__module__, type(layer).__name__) == _TRANSPOSED:
        inputs, outputs = layer.get_parameter("weight").shape
        return inputs, outputs
    return None


def _adapted(layer: Any, given: tuple[torch.Tensor], outputs: torch.Tensor) -> torch.Tensor:
    """Returns the outputs (..., outputs) of a layer, and what its adapter adds for rows (..., inputs)."""
    added: torch.Tensor = layer.scaling * layer.lora_B(nn.functional.linear(given[0], layer.lora_A))
    return outputs + added
