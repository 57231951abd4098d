"""Side effects of a pass through a model: it changes the model's tensors, or draws numbers.

Both carry something from row to row past clipping and noise. A buffer keeps something of earlier rows. A mask
is drawn for each place of a batch, so a row gets another one if a row before it comes or goes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from typing import TypeVar

import torch
from torch import nn

T = TypeVar("T")
_TRIES = 3


class NotByRow(ValueError):
    """A model does not take each row by itself: no row has outputs or a gradient of its own."""


def without_side_effects(model: nn.Module, run: Callable[[], T]) -> T:
    """Returns what `run` returns, which passes rows through `model`. Raises NotByRow for side effects.

    Another thread may draw from torch's generator meanwhile. So the model draws if several runs all do.
    """
    before = {name: _digest(tensor) for name, tensor in _tensors(model)}
    states = _generator_states(model)
    found = run()
    if states != _generator_states(model) and all(_draws_numbers(model, run) for _ in range(_TRIES)):
        layer = describe_layer(model, _drawing_layer(model, run))
        raise NotByRow(
            f"{layer} draws from torch's generator, for each place of a batch and not for each row; allowed: "
            "layers that draw nothing, such as dropout with p = 0"
        )
    for name, tensor in _tensors(model):
        if before.get(name) != _digest(tensor):
            owner, _, own = name.rpartition(".")
            raise NotByRow(
                f"{describe_layer(model, owner)} changes {own!r} when rows pass: what one row leaves there "
                "acts on others; allowed: nn.GroupNorm or nn.LayerNorm, or buffers that stay as they are"
            )
    return found


def describe_layer(model: nn.Module, layer: str) -> str:
    """Returns the words for a layer of `model`; `layer` is its name in the model, "" the model itself."""
    kind = type(model.get_submodule(layer)).__name__
    return f"layer {layer!r} ({kind})" if layer else kind


@contextmanager
def in_eval_mode(model: nn.Module) -> Iterator[None]:
    """Puts all layers into eval mode, and each one back into its own mode at the end."""
    modes = [(layer, layer.training) for layer in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for layer, training in modes:
            layer.training = training


def _tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    return chain(model.named_parameters(), model.named_buffers())


def _digest(tensor: torch.Tensor) -> bytes:
    """Returns a digest of a tensor's shape and bits: copies would take the memory of a large model again."""
    digest = hashlib.sha256(f"{tuple(tensor.shape)} ".encode())
    digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.digest()


def _generator_states(model: nn.Module) -> list[bytes]:
    devices = {tensor.device for _, tensor in _tensors(model) if tensor.device.type == "cuda"}
    states = torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in devices)
    return [state.numpy().tobytes() for state in states]


def _draws_numbers(model: nn.Module, run: Callable[[], object]) -> bool:
    before = _generator_states(model)
    run()
    return before != _generator_states(model)


def _drawing_layer(model: nn.Module, run: Callable[[], object]) -> str:
    """Returns the name of the layer that ends first, of those that draw; "" if none does."""
    running: list[list[bytes]] = []
    found: list[str] = []

    def note_start(*_: object) -> None:
        running.append(_generator_states(model))

    def note_end(name: str, *_: object) -> None:
        if running.pop() != _generator_states(model):
            found.append(name)

    with ExitStack() as stack:
        for name, layer in model.named_modules():
            stack.callback(layer.register_forward_pre_hook(note_start).remove)
            stack.callback(layer.register_forward_hook(partial(note_end, name)).remove)
        run()
    return found[0] if found else ""
