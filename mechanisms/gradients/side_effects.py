"""What a pass through a model does beside its outputs: it may change the model's tensors, or draw numbers.

Both carry something from row to row past clipping and noise: a buffer keeps what earlier rows were, and a
mask that is drawn for a batch is another one for a row that stands at another place.
"""

from __future__ import annotations

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
    """Returns what `run` returns, which passes rows through `model`; raises NotByRow if that does more.

    Other threads of this process may draw meanwhile: what draws here does so each time.
    """
    before = {name: tensor.detach().clone() for name, tensor in _tensors(model)}
    states = _generator_states(model)
    found = run()
    if states != _generator_states(model) and all(_draws(model, run) for _ in range(_TRIES)):
        raise NotByRow(
            f"{named(model, _drawing_layer(model, run))} draws from torch's generator, for each place of a "
            "batch and not for each row; allowed: layers that draw nothing, such as dropout with p = 0"
        )
    for name, tensor in _tensors(model):
        if name not in before or not _same_bits(before[name], tensor):
            layer, _, own = name.rpartition(".")
            raise NotByRow(
                f"{named(model, layer)} changes {own!r} when rows pass: what one row leaves there acts on "
                "others; allowed: nn.GroupNorm or nn.LayerNorm, or buffers that stay as they are"
            )
    return found


def named(model: nn.Module, layer: str) -> str:
    """Returns a layer of `model` in words, by its name in it, "" for the model itself."""
    kind = type(model.get_submodule(layer)).__name__
    return f"layer {layer!r} ({kind})" if layer else kind


@contextmanager
def in_eval_mode(model: nn.Module) -> Iterator[None]:
    """Puts all layers into eval mode, and each back into its own."""
    modes = [(layer, layer.training) for layer in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for layer, training in modes:
            layer.training = training


def _tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    return chain(model.named_parameters(), model.named_buffers())


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether both are equal, NaN to NaN."""
    return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())


def _generator_states(model: nn.Module) -> list[bytes]:
    devices = {tensor.device for _, tensor in _tensors(model) if tensor.device.type == "cuda"}
    states = torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in devices)
    return [state.numpy().tobytes() for state in states]


def _draws(model: nn.Module, run: Callable[[], object]) -> bool:
    before = _generator_states(model)
    run()
    return before != _generator_states(model)


def _drawing_layer(model: nn.Module, run: Callable[[], object]) -> str:
    """Returns the first layer to end that has drawn, an innermost one; "" if none has."""
    running: list[list[bytes]] = []
    found: list[str] = []

    def begun(*_: object) -> None:
        running.append(_generator_states(model))

    def ended(name: str, *_: object) -> None:
        if running.pop() != _generator_states(model):
            found.append(name)

    with ExitStack() as stack:
        for name, layer in model.named_modules():
            stack.callback(layer.register_forward_pre_hook(begun).remove)
            stack.callback(layer.register_forward_hook(partial(ended, name)).remove)
        run()
    return found[0] if found else ""
