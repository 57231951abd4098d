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

import torch
from torch import nn


class AdaptedLinear(nn.Linear):
    """A linear layer with an adapter; weight and bias have the names that they had, and are not trained."""

    def __init__(self, layer: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        self.weight, self.bias = layer.weight, layer.bias
        self.lora_A = nn.Parameter(torch.empty(rank, layer.in_features), requires_grad=False)
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        self.lora_B = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.lora_B.weight)
        self.scaling = alpha / rank

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns (..., outputs) of `rows` (..., inputs)."""
        added: torch.Tensor = self.lora_B(nn.functional.linear(rows, self.lora_A))
        return super().forward(rows) + self.scaling * added


def with_adapters(model: nn.Module, layers: str = "*", rank: int = 8, alpha: float = 16.0) -> nn.Module:
    """Returns `model`, frozen, with adapters of its linear layers whose names the pattern `layers` matches.

    Draws from torch's generator, which has task.seed while a node makes a model. Layers that other code
    computes from their weights, such as those inside nn.MultiheadAttention, are no nn.Linear and have none.
    Raises ValueError if no layer matches, or a rank is above the width of a layer.

    >>> model = with_adapters(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)), "0", rank=2)
    >>> [name for name, value in model.named_parameters() if value.requires_grad]
    ['0.lora_B.weight']
    """
    model.requires_grad_(False)
    found = [
        (name, layer)
        for name, layer in model.named_modules()
        if type(layer) is nn.Linear and name and fnmatchcase(name, layers)
    ]
    if not found:
        raise ValueError(f"layers = {layers!r} matches no linear layer")
    for name, layer in found:
        most = min(layer.in_features, layer.out_features)
        if not 1 <= rank <= most:
            raise ValueError(f"rank = {rank} is refused for the layer {name}; allowed: 1 to {most}")
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, AdaptedLinear(layer, rank, alpha))
    for part in model.modules():
        if isinstance(part, nn.TransformerEncoderLayer):
            part.activation_relu_or_gelu = 0  # else torch computes it in one piece, from the weights alone
    return model
