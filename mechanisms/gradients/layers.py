"""Gradients of single rows for one layer, from its inputs and the gradients of its outputs.

A row's gradient is a product of the layer's input (a) and of the gradient of its output (e). Its norm and a
weighted sum over rows rarely need the product itself. |e a^T|^2 = |e|^2 |a|^2 (Goodfellow 2015). For a
sequence of positions, |sum_t e_t a_t^T|^2 = sum_(s,t) <a_s, a_t> <e_s, e_t> ("ghost norm", Li et al. 2022).
The weighted sum is one matrix product over all rows ("book-keeping", Bu et al. 2023).

Each form of gradients says what it computes and how exactly, for the proof in `clipped_sum`. a and e are the
layers' own float32 numbers; all that follows from them is float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Protocol, Self

import torch
from torch import nn
from torch.nn import functional

RATIO = 2.0**8
"""A row counts as long enough that the sum of |e_t| |a_t| is at most this many times its norm."""


class RowGradients(Protocol):
    """The gradients of one parameter, p elements, for K rows."""

    @property
    def parts(self) -> tuple[torch.Tensor, ...]:
        """The tensors (K, ...) that hold them: row k of each must follow from row k of the batch alone."""

    @property
    def terms(self) -> int:
        """The number of products that each row adds to an element of the sum."""

    @property
    def ratio(self) -> float:
        """The sum of the terms' norms is at most this many times the square root of `squares`."""

    def squares(self) -> torch.Tensor:
        """(K,) float64: squared L2 norms, at most `norm_error` (relative) below the exact ones."""

    def norm_error(self) -> float:
        """The largest relative error by which rounding makes `squares` too small."""

    def without(self, rows: torch.Tensor) -> Self:
        """Returns the same with zeros for `rows` (K,) bool, even if they hold NaN or infinity."""

    def group_sums(self, rows: int) -> RowGradients:
        """Returns K / `rows` sums: those of the gradients of each `rows` consecutive rows."""

    def add_to(self, total: torch.Tensor, weights: torch.Tensor) -> None:
        """Adds the sum over rows of `weights` (K,) times the gradient to `total` (p,), both float64."""


_UNIT = 2.0**-53


def gamma(terms: float) -> float:
    """gamma_n = n u / (1 - n u), the relative error of n roundings in float64 (Higham 2002, section 3.1)."""
    return terms * _UNIT / (1 - terms * _UNIT)


@dataclass(frozen=True)
class Rows:
    """Gradients in full: `values` (K, p) float64, which count as exact."""

    values: torch.Tensor
    terms = 1
    ratio = 1.0

    @property
    def parts(self) -> tuple[torch.Tensor, ...]:
        """See RowGradients."""
        return (self.values,)

    def squares(self) -> torch.Tensor:
        """See RowGradients."""
        return _squares(self.values)

    def norm_error(self) -> float:
        """See RowGradients."""
        return gamma(self.values.shape[1] + 1)

    def without(self, rows: torch.Tensor) -> Self:
        """See RowGradients."""
        return replace(self, values=_zero_rows(self.values, rows))

    def group_sums(self, rows: int) -> RowGradients:
        """See RowGradients; the sums count as exact."""
        return Rows(group_rows(self.values, rows).sum(1))

    def add_to(self, total: torch.Tensor, weights: torch.Tensor) -> None:
        """See RowGradients."""
        total.addmv_(self.values.T, weights)


@dataclass(frozen=True)
class Outer:
    """e a^T: `outputs` e (K, p), `inputs` a (K, k), both float64."""

    outputs: torch.Tensor
    inputs: torch.Tensor
    terms = 1
    ratio = 1.0

    @property
    def parts(self) -> tuple[torch.Tensor, ...]:
        """See RowGradients."""
        return self.outputs, self.inputs

    def squares(self) -> torch.Tensor:
        """See RowGradients."""
        return _squares(self.outputs) * _squares(self.inputs)

    def norm_error(self) -> float:
        """See RowGradients."""
        return gamma(self.outputs.shape[1] + self.inputs.shape[1] + 3)

    def without(self, rows: torch.Tensor) -> Self:
        """See RowGradients."""
        return replace(self, outputs=_zero_rows(self.outputs, rows), inputs=_zero_rows(self.inputs, rows))

    def group_sums(self, rows: int) -> RowGradients:
        """See RowGradients; the rows of a group become positions of a sequence."""
        return _sequences(group_rows(self.outputs, rows), group_rows(self.inputs, rows))

    def add_to(self, total: torch.Tensor, weights: torch.Tensor) -> None:
        """See RowGradients."""
        shape = self.outputs.shape[1], self.inputs.shape[1]
        total.view(shape).addmm_((self.outputs * weights.unsqueeze(1)).T, self.inputs)


@dataclass(frozen=True)
class Positions:
    """sum_t e_t a_t^T over T positions: `outputs` e (K, T, p), `inputs` a (K, T, k), both float64."""

    outputs: torch.Tensor
    inputs: torch.Tensor
    ratio = RATIO

    @property
    def parts(self) -> tuple[torch.Tensor, ...]:
        """See RowGradients."""
        return self.outputs, self.inputs

    @property
    def terms(self) -> int:
        """See RowGradients."""
        return self.outputs.shape[1]

    def squares(self) -> torch.Tensor:
        """See RowGradients.

        The inner products may cancel, and their error is relative to m^2, m = sum_t |e_t| |a_t|. So a row
        counts as at least m / RATIO long. A gradient whose large terms cancel to less than that is clipped as
        if it were so long.
        """
        e, a = self.outputs, self.inputs
        products = torch.bmm(a, a.transpose(1, 2)).mul_(torch.bmm(e, e.transpose(1, 2)))
        most = (torch.linalg.vector_norm(e, dim=2) * torch.linalg.vector_norm(a, dim=2)).sum(1)
        return torch.maximum(products.sum((1, 2)), (most / RATIO).square())

    def norm_error(self) -> float:
        """See RowGradients."""
        (_, t, p), k = self.outputs.shape, self.inputs.shape[2]
        return gamma(p + k + t * t + 3) * RATIO**2

    def without(self, rows: torch.Tensor) -> Self:
        """See RowGradients."""
        return replace(self, outputs=_zero_rows(self.outputs, rows), inputs=_zero_rows(self.inputs, rows))

    def group_sums(self, rows: int) -> RowGradients:
        """See RowGradients: sequences become one longer sequence."""
        return _sequences(_join_sequences(self.outputs, rows), _join_sequences(self.inputs, rows))

    def add_to(self, total: torch.Tensor, weights: torch.Tensor) -> None:
        """See RowGradients."""
        e = self.outputs * weights[:, None, None]
        shape = self.outputs.shape[2], self.inputs.shape[2]
        total.view(shape).addmm_(e.flatten(0, 1).T, self.inputs.flatten(0, 1))


@dataclass(frozen=True)
class Lookup:
    """Gradients of an embedding (`height`, p): `outputs` e (K, T, p) float64, at its rows `places` (K, T)."""

    places: torch.Tensor
    outputs: torch.Tensor
    height: int
    ratio = RATIO

    @property
    def parts(self) -> tuple[torch.Tensor, ...]:
        """See RowGradients."""
        return self.places, self.outputs

    @property
    def terms(self) -> int:
        """See RowGradients."""
        return self.places.shape[1]

    def squares(self) -> torch.Tensor:
        """See RowGradients. A row counts as at least so long as in `Positions`."""
        same = self.places.unsqueeze(2) == self.places.unsqueeze(1)
        products = torch.bmm(self.outputs, self.outputs.transpose(1, 2)).mul_(same)
        most = torch.linalg.vector_norm(self.outputs, dim=2).sum(1)
        return torch.maximum(products.sum((1, 2)), (most / RATIO).square())

    def norm_error(self) -> float:
        """See RowGradients."""
        _, t, p = self.outputs.shape
        return gamma(p + t * t + 3) * RATIO**2

    def without(self, rows: torch.Tensor) -> Self:
        """See RowGradients."""
        return replace(self, outputs=_zero_rows(self.outputs, rows))

    def group_sums(self, rows: int) -> RowGradients:
        """See RowGradients: sequences become one longer sequence."""
        return replace(
            self, places=_join_sequences(self.places, rows), outputs=_join_sequences(self.outputs, rows)
        )

    def add_to(self, total: torch.Tensor, weights: torch.Tensor) -> None:
        """See RowGradients."""
        e = self.outputs * weights[:, None, None]
        total.view(self.height, e.shape[2]).index_add_(0, self.places.flatten(), e.flatten(0, 1))


def _sequences(e: torch.Tensor, a: torch.Tensor) -> RowGradients:
    """Returns the gradients of e (K, T, p) and a (K, T, k), float64: in full if that is the smaller form."""
    if _are_long(e.shape[1], e.shape[2], a.shape[2]):
        return Rows(torch.bmm(e.transpose(1, 2), a).flatten(1))
    return Positions(e, a)


def _are_long(t: int, p: int, k: int) -> bool:
    """Whether the t^2 inner products of t positions are more than an eighth of a gradient's p k numbers."""
    return 8 * t * t > p * k


def group_rows(values: torch.Tensor, rows: int) -> torch.Tensor:
    """Returns `values` (K, ...) as (K / rows, rows, ...)."""
    return values.reshape(-1, rows, *values.shape[1:])


def _join_sequences(values: torch.Tensor, rows: int) -> torch.Tensor:
    """Returns `values` (K, T, ...) as (K / rows, rows T, ...)."""
    return group_rows(values, rows).flatten(1, 2)


def norms_of(found: Mapping[str, RowGradients]) -> torch.Tensor:
    """Returns the L2 norms (K,), over all parameters, of gradients by name."""
    return torch.stack([part.squares() for part in found.values()]).sum(0).sqrt_()


def add_all(
    found: Mapping[str, RowGradients], total: Mapping[str, torch.Tensor], weights: torch.Tensor
) -> None:
    """Adds the sums over rows of `weights` (K,) times the gradients to `total`, both by name."""
    for name, part in found.items():
        part.add_to(total[name], weights)


def _squares(values: torch.Tensor) -> torch.Tensor:
    """Returns the squared L2 norms (K,) of the rows of `values` (K, n)."""
    squares: torch.Tensor = torch.linalg.vector_norm(values, dim=1).square_()
    return squares


def _zero_rows(values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Returns `values` (K, ...) with zeros in `rows` (K,) bool. A weight of 0 would make NaN of infinity."""
    return torch.where(rows.view(-1, *[1] * (values.dim() - 1)), 0, values)


def in_float64(values: torch.Tensor) -> torch.Tensor:
    """Returns `values` in float64, on the CPU if their device has no such numbers (MPS)."""
    return (values.cpu() if values.device.type == "mps" else values).double()


class Float64:
    """`in_float64` into the memory of the last block, as allocating megabytes takes half of the time.

    After `restart`, each call overwrites what the call of the same number returned before.
    """

    def __init__(self) -> None:
        self._kept: list[torch.Tensor] = []
        self._next = 0

    def restart(self) -> None:
        """Begins a new block."""
        self._next = 0

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Returns `values` in float64."""
        place, self._next = self._next, self._next + 1
        if place < len(self._kept) and self._kept[place].shape == values.shape:
            return self._kept[place].copy_(values)
        self._kept[place:] = [in_float64(values).contiguous()]
        return self._kept[place]


# -- kinds of layers -----------------------------------------------------------------------------------

ByParameter = Iterator[tuple[str, RowGradients]]
"""Gradients by the parameter's name in its layer ("weight", "bias")."""


def of_layer(layer: nn.Module, inputs: torch.Tensor, signals: torch.Tensor, convert: Float64) -> ByParameter:
    """Yields a layer's gradients, from `inputs` (K, ...) and `signals` (K, ...), the outputs' gradient."""
    return _rule(layer, inputs, signals, convert)


def check_layer(layer: nn.Module) -> None:
    """Raises ValueError for a layer without a rule, such as a subclass with its own forward pass."""
    kinds = [kind for kind in _rule.registry if isinstance(layer, kind)]
    if not any(type(layer).forward is getattr(kind, "forward", None) for kind in kinds):
        raise ValueError(f"{type(layer).__name__} has no rule of its own")


@singledispatch
def _rule(layer: nn.Module, a: torch.Tensor, e: torch.Tensor, convert: Float64) -> ByParameter:
    raise TypeError(f"{type(layer).__name__} has no rule of its own")


@_rule.register
def _(layer: nn.Linear, a: torch.Tensor, e: torch.Tensor, convert: Float64) -> ByParameter:
    if a.dim() > 2:
        yield from _position_gradients(a.flatten(1, -2), e.flatten(1, -2), convert)
        return
    signals = convert(e)
    yield "weight", Outer(signals, convert(a))
    yield "bias", Rows(signals)


def _position_gradients(a: torch.Tensor, e: torch.Tensor, convert: Float64) -> ByParameter:
    """Yields the gradients of a (K, T, k) and e (K, T, p), in full if that is the smaller form."""
    if _are_long(e.shape[1], e.shape[2], a.shape[2]):
        yield "weight", Rows(convert(torch.bmm(e.transpose(1, 2), a).flatten(1)))
    else:
        yield "weight", Positions(convert(e), convert(a))
    yield "bias", Rows(convert(e).sum(1))


@_rule.register
def _(layer: nn.Conv1d, a: torch.Tensor, e: torch.Tensor, convert: Float64) -> ByParameter:
    lengths = layer.kernel_size, layer.dilation, _padding(layer), layer.stride
    kernel, dilation, padding, stride = ((own[0],) for own in lengths)
    sizes = (1, *kernel), (1, *dilation), (0, *padding), (1, *stride)  # as in two dimensions, with height 1
    return _convolution(layer, functional.unfold(a.unsqueeze(2), *sizes), e, convert)


@_rule.register
def _(layer: nn.Conv2d, a: torch.Tensor, e: torch.Tensor, convert: Float64) -> ByParameter:
    windows = functional.unfold(a, layer.kernel_size, layer.dilation, _padding(layer), layer.stride)
    return _convolution(layer, windows, e.flatten(2), convert)


def _padding(layer: nn.Conv1d | nn.Conv2d) -> tuple[int, ...]:
    if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
        raise ValueError(f"{type(layer).__name__} pads in a way that has no rule of its own")
    return layer.padding


def _convolution(
    layer: nn.Conv1d | nn.Conv2d, windows: torch.Tensor, e: torch.Tensor, convert: Float64
) -> ByParameter:
    """Yields the gradients, from each position's inputs, `windows` (K, k, T), and e (K, p, T)."""
    if layer.groups == 1:
        yield from _position_gradients(windows.transpose(1, 2), e.transpose(1, 2), convert)
        return
    shape = len(e), layer.groups, -1, e.shape[2]
    of_group = torch.matmul(e.reshape(shape), windows.reshape(shape).transpose(2, 3))
    yield "weight", Rows(convert(of_group.flatten(1)))
    yield "bias", Rows(convert(e).sum(2))


@_rule.register
def _(layer: nn.Embedding, a: torch.Tensor, e: torch.Tensor, convert: Float64) -> ByParameter:
    if layer.max_norm is not None or layer.scale_grad_by_freq or layer.sparse:
        raise ValueError("Embedding with max_norm, scale_grad_by_freq or sparse has no rule of its own")
    e = convert(e).reshape(len(a), -1, e.shape[-1])
    places = a.reshape(len(a), -1).to(e.device)
    if layer.padding_idx is not None:
        e = e * (places != layer.padding_idx).unsqueeze(2)
    yield "weight", Lookup(places, e, layer.num_embeddings)


@_rule.register
def _(layer: nn.LayerNorm, a: torch.Tensor, e: torch.Tensor, convert: Float64) -> ByParameter:
    scaled = convert(functional.layer_norm(a, layer.normalized_shape, eps=layer.eps))
    e = convert(e)
    shape = len(a), -1, math.prod(layer.normalized_shape)
    yield "weight", Rows((scaled * e).reshape(shape).sum(1))
    yield "bias", Rows(e.reshape(shape).sum(1))


@_rule.register
def _(layer: nn.GroupNorm, a: torch.Tensor, e: torch.Tensor, convert: Float64) -> ByParameter:
    scaled = convert(functional.group_norm(a, layer.num_groups, eps=layer.eps))
    e = convert(e)
    yield "weight", Rows((scaled * e).reshape(*a.shape[:2], -1).sum(2))
    yield "bias", Rows(e.reshape(*a.shape[:2], -1).sum(2))
