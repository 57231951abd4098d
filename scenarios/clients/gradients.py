"""Gradients of many clients' models at once: k parameter vectors of one model, each with a batch of its own.

For any model, torch.func computes them: `vmap` over a functional call. A profile (784-256-10, batches of 10)
shows that three quarters of the time go to memory: a layer's gradient is written, read again and subtracted,
although it is a sum of few outer products. If linear layers hold all parameters, each layer therefore returns
the two factors, and one `baddbmm_` adds their product to the weights or the momentum in one pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import prod
from typing import Protocol, cast

import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.nn import functional
from torch.nn.modules.dropout import _DropoutNd
from torch.utils.hooks import RemovableHandle

from mechanisms.gradients.objective import Loss, check_layers
from node.training.trainer import shapes

_PROBE_ROWS = 2


class Part(Protocol):
    """The gradients of some consecutive parameters of k models."""

    def squares(self) -> torch.Tensor:
        """(k,) squared L2 norms."""

    def scale(self, factors: torch.Tensor) -> None:
        """Multiply the gradients by `factors` (k,), one per model."""

    def add_to(self, target: torch.Tensor, keep: float, times: float) -> None:
        """target = keep * target + times * gradient, in place, at these parameters of `target` (k, d)."""


@dataclass
class Whole:
    """Gradients as `values` (k, n), for the parameters `where` of a vector."""

    where: slice
    values: torch.Tensor

    def squares(self) -> torch.Tensor:
        """(k,) squared L2 norms."""
        return self.values.square().sum(1)

    def scale(self, factors: torch.Tensor) -> None:
        """Multiply the gradients by `factors` (k,)."""
        self.values = self.values * factors.unsqueeze(1)

    def add_to(self, target: torch.Tensor, keep: float, times: float) -> None:
        """target = keep * target + times * values, in place."""
        own = target[:, self.where]
        if keep != 1:
            own.mul_(keep)
        own.add_(self.values, alpha=times)


@dataclass
class Product:
    """Gradients as sums of outer products: left^T @ right, (k, out, in).

    left: (k, n, out); right: (k, n, in).
    """

    where: slice
    left: torch.Tensor
    right: torch.Tensor

    def squares(self) -> torch.Tensor:
        """(k,) squared L2 norms: sum over i, j of <left_i, left_j> <right_i, right_j>.

        If the product is smaller than these inner products, its entries are squared instead.
        """
        n, (outputs, inputs) = self.left.shape[1], self._shape
        if n * (outputs + inputs) > outputs * inputs:
            return torch.bmm(self.left.transpose(1, 2), self.right).square().sum((1, 2))
        lefts = torch.bmm(self.left, self.left.transpose(1, 2))
        return (lefts * torch.bmm(self.right, self.right.transpose(1, 2))).sum((1, 2)).clamp_(min=0)

    def scale(self, factors: torch.Tensor) -> None:
        """Multiply the gradients by `factors` (k,)."""
        self.left = self.left * factors[:, None, None]

    def add_to(self, target: torch.Tensor, keep: float, times: float) -> None:
        """target = keep * target + times * product, in place, in one pass."""
        own = target[:, self.where].view(len(target), *self._shape)
        own.baddbmm_(self.left.transpose(1, 2), self.right, beta=keep, alpha=times)

    @property
    def _shape(self) -> tuple[int, int]:
        return self.left.shape[2], self.right.shape[2]


Names = Mapping[str, tuple[slice, torch.Tensor]]
"""Parameters by name: the slice of each in a vector (d,), and a view (k, *shape) of its values."""


class Gradients:
    """Gradients of the mean loss of k clients' models; the d parameters have the same order as in a node.

    Raises ValueError for a model that mixes the rows of a batch, as batch norm does (its running statistics
    belong to no client), and for dropout, which would draw from torch's global generator.
    """

    def __init__(self, model: nn.Module, loss: Loss, row: torch.Tensor) -> None:
        """`model` is copied; `row` (1, ...): any row, for its shape and dtype. `loss`: a mean over rows."""
        own = deepcopy(model).to(row.dtype).train()
        check_layers(own)
        for name, layer in own.named_modules():
            if isinstance(layer, _DropoutNd) and layer.p > 0:
                raise ValueError(
                    f"layer {name!r} ({type(layer).__name__}) draws from torch's global generator: figures "
                    "would not follow from the seed; allowed: p = 0, or a model without dropout"
                )
        self._shapes = shapes(own, "*")
        calls = _probed(own, torch.cat([row, 0.5 - row]))
        self._route: _Stacked | _Mapped = _Mapped(own, loss)
        layers = list(dict.fromkeys(name.rpartition(".")[0] for name, _ in self._shapes))
        if all(_is_stackable(name, own, calls) for name in layers):
            self._route = _Stacked(own, loss, layers)

    @property
    def size(self) -> int:
        """The number of parameters, d."""
        return sum(prod(shape) for _, shape in self._shapes)

    def __call__(
        self, weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor, shares: torch.Tensor | None
    ) -> tuple[list[Part], torch.Tensor]:
        """Gradients by parameter, and (k,) mean losses, at `weights` (k, d) for x (k, n, ...), y (k, n, ...).

        `shares` (k, n) are the weights of the rows and add up to 1 for each client; None: equal weights.
        """
        places, begin = {}, 0
        for name, shape in self._shapes:
            where = slice(begin, begin + prod(shape))
            places[name] = (where, weights[:, where].view(len(weights), *shape))
            begin = where.stop
        with torch.enable_grad():
            return self._route.gradients(places, x, y, shares)


class _Mapped:
    """Any model: one backward pass through `vmap` over a functional call."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        self._model, self._loss = model, loss

    def gradients(
        self, places: Names, x: torch.Tensor, y: torch.Tensor, shares: torch.Tensor | None
    ) -> tuple[list[Part], torch.Tensor]:
        """See Gradients.__call__."""
        leaves = {name: values.detach().requires_grad_() for name, (_, values) in places.items()}

        def outputs_of_one(own: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
            outputs: torch.Tensor = functional_call(self._model, own, (rows,))
            return outputs

        losses = _losses(self._loss, vmap(outputs_of_one)(leaves, x), y, shares)
        found = torch.autograd.grad(losses.sum(), list(leaves.values()), materialize_grads=True)
        wheres = (where for where, _ in places.values())
        parts = [Whole(where, values.flatten(1)) for where, values in zip(wheres, found, strict=True)]
        return [*parts], losses.detach()


class _Stacked:
    """A model with all its parameters in linear layers; it processes the rows of all clients as one batch."""

    def __init__(self, model: nn.Module, loss: Loss, names: Sequence[str]) -> None:
        self._model, self._loss = model, loss
        self._layers: dict[str, _StackedLinear] = {}
        for name in names:
            layer = model.get_submodule(name)
            layer.__class__ = _StackedLinear
            self._layers[name] = cast(_StackedLinear, layer)

    def gradients(
        self, places: Names, x: torch.Tensor, y: torch.Tensor, shares: torch.Tensor | None
    ) -> tuple[list[Part], torch.Tensor]:
        """See Gradients.__call__."""
        for name, layer in self._layers.items():
            bias = places.get(f"{name}.bias")
            layer.weights, layer.biases = places[f"{name}.weight"][1], None if bias is None else bias[1]
        outputs = self._model(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        losses = _losses(self._loss, outputs, y, shares)
        given = [layer.outputs for layer in self._layers.values()]
        found = torch.autograd.grad(losses.sum(), given, materialize_grads=True)
        parts: list[Part] = []
        for (name, layer), left in zip(self._layers.items(), found, strict=True):
            parts.append(Product(places[f"{name}.weight"][0], left, layer.inputs))
            if f"{name}.bias" in places:
                parts.append(Whole(places[f"{name}.bias"][0], left.sum(1)))
        return parts, losses.detach()


class _StackedLinear(nn.Linear):
    """One linear layer of k clients, which stores its last inputs and outputs.

    weights: (k, out, in), biases: (k, out); inputs: (k, n, in) and outputs: (k, n, out). n counts a client's
    rows, times the positions in a row if it has several.
    """

    weights: torch.Tensor
    biases: torch.Tensor | None
    inputs: torch.Tensor
    outputs: torch.Tensor

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 -- torch's name for the argument
        """(k * rows, ..., in) -> (k * rows, ..., out)."""
        rows = input.reshape(len(self.weights), -1, self.in_features)
        across = self.weights.transpose(1, 2)
        if self.biases is None:
            outputs = torch.bmm(rows, across)
        else:
            outputs = torch.baddbmm(self.biases.unsqueeze(1), rows, across)
        self.inputs, self.outputs = rows.detach(), outputs.requires_grad_()
        return self.outputs.view(*input.shape[:-1], self.out_features)


def _losses(loss: Loss, outputs: torch.Tensor, y: torch.Tensor, shares: torch.Tensor | None) -> torch.Tensor:
    """(k,): the mean loss of each client's rows, from outputs (k, n, ...) and labels y (k, n)."""
    if (
        loss is functional.cross_entropy and outputs.dim() == 3 and y.dim() == 2
    ):  # vmap decomposes cross entropy, which is slow
        each = functional.cross_entropy(outputs.flatten(0, 1), y.flatten(), reduction="none").view(y.shape)
        return each.mean(1) if shares is None else (each * shares).sum(1)
    if shares is None:
        return vmap(loss)(outputs, y)

    def loss_of_row(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return loss(output.unsqueeze(0), target.unsqueeze(0))

    return (vmap(vmap(loss_of_row))(outputs, y) * shares).sum(1)


def _is_stackable(name: str, model: nn.Module, calls: Mapping[str, Sequence[int]]) -> bool:
    """Whether `name` is a linear layer, called once, that works row by row and shares no parameter."""
    if list(calls.get(name, ())) != [_PROBE_ROWS]:
        return False
    everywhere = [value for _, value in model.named_parameters(remove_duplicate=False)]
    own = list(model.get_submodule(name).parameters())
    return all(value.requires_grad and sum(value is other for other in everywhere) == 1 for value in own)


def _probed(model: nn.Module, rows: torch.Tensor) -> dict[str, list[int]]:
    """For each linear layer that is called: its number of output rows, call by call, on `rows` (2, ...).

    Raises ValueError for a model that mixes the rows of a batch.
    """
    calls: dict[str, list[int]] = {}

    def listen(name: str, layer: nn.Module) -> RemovableHandle:
        return layer.register_forward_hook(
            lambda _layer, _inputs, outputs: calls.setdefault(name, []).append(len(outputs))
        )

    layers = {name: layer for name, layer in model.named_modules() if name and type(layer) is nn.Linear}
    handles = [listen(name, layer) for name, layer in layers.items()]
    with torch.no_grad():
        together = model(rows)
        for handle in handles:
            handle.remove()
        alone = model(rows[:1])
    if together.shape != (len(rows), *alone.shape[1:]) or not torch.allclose(together[:1], alone, 1e-3, 1e-5):
        raise ValueError(
            f"model ({type(model).__name__}) answers to a row as the rest of its batch has it; allowed: one "
            "whose rows do not mix, as with layer or group norm"
        )
    return calls
