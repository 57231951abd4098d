"""Batch normalisation between peers: its running statistics are of a node's own rows, and stay with it.

    training     batch norm normalises by the batch, as ever; running statistics have no part in it
    evaluation   they are estimated anew, for the very parameters that are evaluated, from the training rows
    fixed        a layer whose parameters are not trained keeps the statistics that it began with

What training leaves behind in them is of other parameters than those of a mean, so that it is estimated
again (Izmailov et al. 2018, "Averaging Weights Leads to Wider Optima", section 3.1). Nothing of it leaves the
node: a mean of the peers' statistics would have to be noised like an update, and would still be wrong where
their rows differ.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

_ESTIMATED_ROWS = 16_384  # at most; further ones would change nothing that can be seen
_AT_ONCE = 1024


class BatchNorms:
    """The layers of a model that keep running statistics, told apart by what is trained.

    Made when it is decided what is trained (`requires_grad`), and for good.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        named = {name: layer for name, layer in model.named_modules() if _keeps_statistics(layer)}
        self._fixed = {name: layer for name, layer in named.items() if not _is_trained(model, name)}
        self._estimated = {
            name: layer
            for name, layer in named.items()
            if name not in self._fixed and isinstance(layer, _BatchNorm)
        }

    @property
    def fixed_statistics(self) -> frozenset[str]:
        """Names of the buffers of layers that keep what they began with."""
        return frozenset(_buffers(self._fixed))

    @property
    def estimated_statistics(self) -> frozenset[str]:
        """Names of the buffers that are estimated anew for whatever is evaluated."""
        return frozenset(_buffers(self._estimated))

    def begin_training(self) -> None:
        """Put the model in training mode, but for layers that are not trained."""
        self._model.train()
        for layer in self._fixed.values():
            layer.eval()

    def estimate(self, rows: torch.Tensor) -> None:
        """Work out running statistics for the model as it is from `rows` (n, ...); it ends in eval mode.

        The mean over batches of nearly the same size. A single row has no variance: they stay as they are.
        """
        self._model.eval()
        if not self._estimated or len(rows) < 2:
            return
        momenta = {name: layer.momentum for name, layer in self._estimated.items()}
        try:
            for layer in self._estimated.values():
                layer.reset_running_stats()
                layer.momentum = None  # the mean of all batches, instead of mostly the last
                layer.train()
            with torch.no_grad():
                for batch in _batches(rows):
                    self._model(batch)
        finally:
            for name, layer in self._estimated.items():
                layer.momentum = momenta[name]
            self._model.eval()


def _keeps_statistics(layer: nn.Module) -> bool:
    return isinstance(layer, _NormBase) and layer.running_mean is not None


def _is_trained(model: nn.Module, name: str) -> bool:
    """Whether the layer's own parameters are; of a layer without any, whether anything beside it is."""
    layer = model.get_submodule(name)
    beside = layer if any(True for _ in layer.parameters()) else model.get_submodule(name.rpartition(".")[0])
    return any(parameter.requires_grad for parameter in beside.parameters())


def _buffers(layers: Mapping[str, nn.Module]) -> list[str]:
    found = ((name, buffer) for name, layer in layers.items() for buffer, _ in layer.named_buffers())
    return [f"{name}.{buffer}".lstrip(".") for name, buffer in found]


def _batches(rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """At most _ESTIMATED_ROWS of `rows`, evenly over all of them, in batches of two rows or more."""
    if len(rows) > _ESTIMATED_ROWS:
        places = torch.arange(_ESTIMATED_ROWS, device=rows.device) * len(rows) // _ESTIMATED_ROWS
        rows = rows[places]
    return torch.tensor_split(rows, -(-len(rows) // _AT_ONCE))
