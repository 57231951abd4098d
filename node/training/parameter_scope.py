"""Which parameters of a model are trained, which of these are aggregated, and which stay fixed.

shared   trained and aggregated: the parameters that train.parameters matches
local    trained and kept by the node: others that train.local matches
fixed    all others: their values come from task.seed or model.weights and are the same at all peers
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from operator import itemgetter

import numpy as np
import torch
from torch import nn

from node.system.errors import ConfigError, shown

_MOST_IN_FILE = 4 << 20
"""Bytes of fixed parameters that a model's file has."""


def matching(model: nn.Module, pattern: str) -> list[tuple[str, nn.Parameter]]:
    """Returns the trainable parameters whose names `pattern` matches; raises ConfigError if there is none.

    Parameters that the model's author froze are the same at all peers and are not sent.
    """
    trainable = _trainable(model)
    found = [(name, value) for name, value in trainable.items() if fnmatchcase(name, pattern)]
    if not found:
        raise ConfigError(
            f"train.parameters = {shown(pattern)} matches none of the model's parameters; it has: "
            f"{shown(', '.join(trainable))}"
        )
    return found


def choose_trained(model: nn.Module, pattern: str, local: str | None) -> tuple[str, ...]:
    """Freezes parameters that neither `pattern` nor `local` matches; returns the names of the local ones.

    A parameter that both match is shared. Raises ConfigError if `local` matches none of the others.
    """
    shared = {name for name, _ in matching(model, pattern)}
    others = {name: value for name, value in _trainable(model).items() if name not in shared}
    kept = tuple(name for name in others if local is not None and fnmatchcase(name, local))
    if local is not None and not kept:
        raise ConfigError(
            f"train.local = {shown(local)} matches none of the model's parameters that are not shared; these "
            f"are: {shown(', '.join(others) or 'none')}"
        )
    for name, value in others.items():
        if name not in kept:
            value.requires_grad_(False)
    return kept


def _trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def fixed_parameters(model: nn.Module) -> list[str]:
    """Returns the names of the parameters that are not trained, after `choose_trained`."""
    return [name for name, value in model.named_parameters() if not value.requires_grad]


def left_out_of_files(model: nn.Module) -> list[str]:
    """Returns the names of the fixed parameters that a model's file leaves out, after `choose_trained`.

    They are the largest ones, so many that the others have at most 4 MiB: a model of gigabytes to which a
    task adds little is made again from its class, and the file has a digest of it.
    """
    tensors = plain_tensors(model)
    fixed = _fixed_sizes(model)
    left, out = sum(fixed.values()), set()
    for place, size in sorted(fixed.items(), key=itemgetter(1), reverse=True):
        if left <= _MOST_IN_FILE:
            break
        out.add(place)
        left -= size
    return [name for name, value in tensors.items() if id(value) in out]


def fixed_bytes(model: nn.Module) -> int:
    """Returns how many bytes the fixed parameters have together, after `choose_trained`."""
    return sum(_fixed_sizes(model).values())


def _fixed_sizes(model: nn.Module) -> dict[int, int]:
    fixed = (value for value in model.parameters() if not value.requires_grad)
    return {id(value): value.numel() * value.element_size() for value in fixed}


def plain_tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    """Returns all parameters and buffers of the model by name, without copying them."""
    state: Mapping[str, object] = model.state_dict(keep_vars=True)
    return {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}


def digest_of(model: nn.Module, names: Iterable[str]) -> str:
    """Returns the SHA-256, in hex, of the tensors called `names`, with their names, types and shapes."""
    tensors, digest = plain_tensors(model), hashlib.sha256()
    for name in sorted(names):
        array = tensors[name].detach().cpu().contiguous().numpy()
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)  # no copy: an embedding may have gigabytes
    return digest.hexdigest()
