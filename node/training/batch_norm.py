"""Batch normalisation between peers: a node computes running statistics from its own rows and keeps them.

    training     batch norm normalises by the batch, as usual; running statistics are not used
    evaluation   the node estimates them from the training rows for exactly the evaluated parameters
    fixed        a layer whose parameters are not trained keeps its initial statistics

The statistics after training belong to other parameters than those of a mean, so the node estimates them
again (Izmailov et al. 2018, "Averaging Weights Leads to Wider Optima", section 3.1). They never leave the
node: a mean of the peers' statistics would need noise like an update, and would still be wrong if their rows
differ.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from node.training.at_once import parts

_ESTIMATED_ROWS = 16_384  # at most; more rows make no visible difference
_AT_ONCE = 1024


class BatchNorms:
    """The layers of a model that keep running statistics, divided into trained and fixed ones.

    The division is final: create it once `requires_grad` is set for all parameters.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        named = {
            name: layer
            for name, layer in model.named_modules()
            if isinstance(layer, _NormBase) and layer.running_mean is not None
        }
        self._fixed = {name: layer for name, layer in named.items() if not _is_trained(model, name)}
        self._estimated = {
            name: layer
            for name, layer in named.items()
            if name not in self._fixed and isinstance(layer, _BatchNorm)
        }

    @property
    def fixed_statistics(self) -> frozenset[str]:
        """The names of the buffers of layers that keep their initial statistics."""
        return frozenset(_buffers(self._fixed))

    @property
    def estimated_statistics(self) -> frozenset[str]:
        """The names of the buffers that are estimated again for each evaluated vector."""
        return frozenset(_buffers(self._estimated))

    def begin_training(self) -> None:
        """Puts the model in training mode, except the layers that are not trained."""
        self._model.train()
        for layer in self._fixed.values():
            layer.eval()

    def estimate(self, rows: torch.Tensor) -> None:
        """Estimates running statistics of the current model from `rows` (n, ...), leaves it in eval mode.

        They are means over batches of nearly equal size. A single row has no variance: it changes nothing.
        """
        self._model.eval()
        if not self._estimated or len(rows) < 2:
            return
        momenta = {name: layer.momentum for name, layer in self._estimated.items()}
        try:
            for layer in self._estimated.values():
                layer.reset_running_stats()
                layer.momentum = None  # the mean of all batches, instead of a mean dominated by the last
                layer.train()
            with torch.no_grad():
                for batch in _batches(rows):
                    self._model(batch)
        finally:
            for name, layer in self._estimated.items():
                layer.momentum = momenta[name]
            self._model.eval()


def _is_trained(model: nn.Module, name: str) -> bool:
    """Returns whether the layer's parameters are trained, or without any, its parent module's."""
    layer = model.get_submodule(name)
    beside = layer if any(True for _ in layer.parameters()) else model.get_submodule(name.rpartition(".")[0])
    return any(parameter.requires_grad for parameter in beside.parameters())


def _buffers(layers: Mapping[str, nn.Module]) -> list[str]:
    found = ((name, buffer) for name, layer in layers.items() for buffer, _ in layer.named_buffers())
    return [f"{name}.{buffer}".lstrip(".") for name, buffer in found]


def _batches(rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Returns at most _ESTIMATED_ROWS of `rows`, evenly spaced, in batches of two rows or more."""
    if len(rows) > _ESTIMATED_ROWS:
        places = torch.arange(_ESTIMATED_ROWS, device=rows.device) * len(rows) // _ESTIMATED_ROWS
        rows = rows[places]
    return parts(rows, _AT_ONCE)
