"""The local tensors, which a node does not share: local parameters, and buffers.

They persist from round to round, and over restarts in private.safetensors. An interrupted training does not
change them, as its cost was never recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from node.system.errors import shown
from node.training.batch_norm import BatchNorms
from node.training.parameter_scope import plain_tensors

Array = NDArray[np.generic]
Snapshot = dict[str, torch.Tensor]


class LocalTensors:
    """A node's own tensors in a model; `local` are the names of its local parameters."""

    def __init__(self, model: nn.Module, local: Sequence[str], norms: BatchNorms) -> None:
        self._model = model
        parameters = {id(value) for value in model.parameters()}
        buffers = (name for name, value in plain_tensors(model).items() if id(value) not in parameters)
        self.names = tuple(name for name in (*local, *buffers) if name not in norms.fixed_statistics)
        self._kept = tuple(name for name in self.names if name not in norms.estimated_statistics)

    def snapshot(self) -> Snapshot:
        """Returns copies of the tensors that persist from round to round."""
        tensors = plain_tensors(self._model)
        return {name: tensors[name].detach().clone() for name in self._kept}

    def restore(self, snapshot: Snapshot) -> None:
        """Restores the values of the snapshot."""
        tensors = plain_tensors(self._model)
        for name, value in snapshot.items():
            tensors[name].detach().copy_(value)

    def resume(self, stored: Mapping[str, Array]) -> None:
        """Takes the values from a file; tensors that it lacks or has in another shape stay unchanged."""
        tensors = plain_tensors(self._model)
        for name in self._kept:
            if name in stored and stored[name].shape == tuple(tensors[name].shape):
                tensors[name].detach().copy_(torch.from_numpy(np.array(stored[name])))


def own_words(names: Sequence[str], device: str) -> dict[str, str]:
    """Returns the lines at the start on tensors that stay on this node and on the device; often none."""
    words = {} if device == "cpu" else {"device": device}
    if names:
        words["stays here"] = (
            f"{shown(', '.join(names))}; model.safetensors holds them too, so look at docs/models.md before "
            "you give it away"
        )
    return words


def whole_model(
    model: nn.Module, parts: Mapping[str, Array], without: Iterable[str] = ()
) -> dict[str, Array]:
    """Returns all parameters and buffers of `model` by name, from `parts` if there, else copied.

    A parameter that the model has under two names appears under both. Those called `without` are not there.
    """
    left_out = set(without)
    by_identity = {id(value): parts[name] for name, value in model.named_parameters() if name in parts}
    return {
        name: by_identity[id(value)] if id(value) in by_identity else value.detach().cpu().numpy().copy()
        for name, value in plain_tensors(model).items()
        if name not in left_out
    }
