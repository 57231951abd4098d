"""Initial weights from a file of tensors that all peers have, instead of random ones.

The file may hold a part of the model, such as a pretrained body; task.seed determines the other tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from node.storage.regular_files import check_regular
from node.system.errors import ConfigError, reason, shown
from node.task.sections import ModelSection
from node.training.parameter_scope import plain_tensors


def load_weights(model: nn.Module, path: Path, asked: str) -> tuple[str, ...]:
    """Copies the tensors of `path` into `model` without unpickling; returns their names.

    `asked` names the option in errors. Raises ConfigError for a file that cannot be read, and for a tensor
    that the model does not have, or has in another shape or type, or that is not finite.
    """
    there, where = plain_tensors(model), f"{asked}: {shown(str(path))}"
    try:
        check_regular(path)
        with safe_open(path, "pt") as file:
            names = tuple(file.keys())
            for name in names:
                _copy(where, file, name, there)
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"{where} cannot be read: {reason(error)}") from error
    if not names:
        raise ConfigError(f"{where} holds no tensor")
    return names


def loaded_names(section: ModelSection) -> tuple[str, ...]:
    """Returns the names of the tensors in a section's file, as `load_weights` does; none without a file."""
    if section.weights is None:
        return ()
    with safe_open(Path(section.weights), "pt") as file:
        return tuple(file.keys())


def _copy(where: str, file: Any, name: str, there: Mapping[str, torch.Tensor]) -> None:
    """Copies a tensor of an open file into the model's; its shape is compared before it is read."""
    if name not in there:
        raise ConfigError(
            f"{where} has a tensor {shown(name)}, which the model has not; it has {shown(', '.join(there))}; "
            "rename the tensor or leave it out"
        )
    shape, to = tuple(file.get_slice(name).get_shape()), there[name]
    if shape != tuple(to.shape):
        raise ConfigError(
            f"{where} has {shown(name)} in shape {shape}, the model in {tuple(to.shape)}; change "
            "model.args or leave the tensor out"
        )
    tensor = file.get_tensor(name)
    if tensor.is_floating_point() != to.is_floating_point():
        raise ConfigError(f"{where} has {shown(name)} as {tensor.dtype}; allowed: {to.dtype}")
    if tensor.is_floating_point() and not torch.isfinite(tensor.to(to.dtype)).all():
        raise ConfigError(f"{where} has {shown(name)} with values that are no finite {to.dtype} numbers")
    with torch.no_grad():
        to.copy_(tensor)
