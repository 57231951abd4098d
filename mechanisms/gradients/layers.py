"""Gradients of single rows for one layer, from its inputs and the gradients of its outputs.

A layer's per-row gradient is a product of what came in (a) and of the gradient of what went out (e). For its
norm, and for a weighted sum over rows, the product itself is rarely needed: |e a^T|^2 = |e|^2 |a|^2
(Goodfellow 2015), for a sequence of positions |sum_t e_t a_t^T|^2 = sum_(s,t) <a_s, a_t> <e_s, e_t> ("ghost
norm", Li et al. 2022), and the weighted sum is one matrix product over all rows ("book-keeping", Bu et al.
2023).

Every form states what it computes exactly enough for a proof: see `clipped_sum`. a and e are the layers' own
float32 numbers; everything after them is float64.
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
"""How much longer than a row's gradient the sum of |e_t| |a_t| may be; see `Positions.squares`."""


class RowGradients(Protocol):
    """The gradients of one parameter, p elements, for K rows."""

    @property
    def parts(self) -> tuple[torch.Tensor, ...]:
        """The tensors (K, ...) that hold them: row k of each follows from row k of the batch alone."""

    @property
    def terms(self) -> int:
        """The number of products that each row adds to an element of the sum."""

    @property
    def ratio(self) -> float:
        """The most by which the terms' norms add up to more than the square root of `squares`."""

    def squares(self) -> torch.Tensor:
        """(K,) float64: squared L2 norms, never below the true ones by more than a relative `norm_error`."""

    def norm_error(self) -> float:
        """The most by which rounding makes `squares` too small, relatively."""

    def without(self, rows: torch.Tensor) -> Self:
        """The same with zeros for `rows` (K,) bool, whatever they hold."""

    def together(self, rows: int) -> RowGradients:
        """The sums of the gradients of each `rows` rows that follow on each other: those of K / `rows`."""

    def add_to(self, total: torch.Tensor, weights: torch.Tensor) -> None:
        """Adds the sum over rows of `weights` (K,) times the gradient to `total` (p,), both float64."""


_UNIT = 2.0**-53


def gamma(terms: float) -> float:
    """gamma_n = n u / (1 - n u), the relative error of n roundings in float64 (Higham 2002, section 3.1)."""
    return terms * _UNIT / (1 - terms * _UNIT)


@dataclass(frozen=True)
class Rows:
    """Gradients in full: `values` (K, p) float64. They are by definition what each row gives."""

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
        return replace(self, values=_zeroed(self.values, rows))

    def together(self, rows: int) -> RowGradients:
        """See RowGradients: by definition what the rows give together."""
        return Rows(grouped(self.values, rows).sum(1))

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
        return replace(self, outputs=_zeroed(self.outputs, rows), inputs=_zeroed(self.inputs, rows))

    def together(self, rows: int) -> RowGradients:
        """See RowGradients: rows are positions of one sequence."""
        return _sequences(grouped(self.outputs, rows), grouped(self.inputs, rows))

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

        The inner products may cancel; their error is relative to m^2, m = sum_t |e_t| |a_t|. So a row counts
        as at least m / RATIO long: a gradient that is a smaller sum of large terms is clipped as if it were
        longer.
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
        return replace(self, outputs=_zeroed(self.outputs, rows), inputs=_zeroed(self.inputs, rows))

    def together(self, rows: int) -> RowGradients:
        """See RowGradients: sequences become one longer sequence."""
        return _sequences(_joined(self.outputs, rows), _joined(self.inputs, rows))

    def add_to(self, total: torch.Tensor, weights: torch.Tensor) -> None:
        """See RowGradients."""
        e = self.outputs * weights[:, None, None]
        shape = self.outputs.shape[2], self.inputs.shape[2]
        total.view(shape).addmm_(e.flatten(0, 1).T, self.inputs.flatten(0, 1))


@dataclass(frozen=True)
class Lookup:
    """An embedding's (`height`, p): its rows `places` (K, T) get `outputs` e (K, T, p), float64."""

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
        """See RowGradients; bounded from below as in `Positions`."""
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
        return replace(self, outputs=_zeroed(self.outputs, rows))

    def together(self, rows: int) -> RowGradients:
        """See RowGradients: sequences become one longer sequence."""
        return replace(self, places=_joined(self.places, rows), outputs=_joined(self.outputs, rows))

    def add_to(self, total: torch.Tensor, weights: torch.Tensor) -> None:
        """See RowGradients."""
        e = self.outputs * weights[:, None, None]
        total.view(self.height, e.shape[2]).index_add_(0, self.places.flatten(), e.flatten(0, 1))


def _sequences(e: torch.Tensor, a: torch.Tensor) -> RowGradients:
    """The gradients of e (K, T, p) and a (K, T, k), float64: in full where that is the smaller form."""
    if _are_long(e.shape[1], e.shape[2], a.shape[2]):
        return Rows(torch.bmm(e.transpose(1, 2), a).flatten(1))
    return Positions(e, a)


def _are_long(t: int, p: int, k: int) -> bool:
    """Whether t positions have more inner products than an eighth of a gradient's p k numbers."""
    return 8 * t * t > p * k


def grouped(values: torch.Tensor, rows: int) -> torch.Tensor:
    """(K / rows, rows, ...) of `values` (K, ...)."""
    return values.reshape(-1, rows, *values.shape[1:])


def _joined(values: torch.Tensor, rows: int) -> torch.Tensor:
    """(K / rows, rows T, ...) of `values` (K, T, ...)."""
    return grouped(values, rows).flatten(1, 2)


def norms_of(found: Mapping[str, RowGradients]) -> torch.Tensor:
    """(K,) L2 norms over all parameters of gradients by name."""
    return torch.stack([part.squares() for part in found.values()]).sum(0).sqrt_()


def add_all(
    found: Mapping[str, RowGradients], total: Mapping[str, torch.Tensor], weights: torch.Tensor
) -> None:
    """Adds the sums over rows of `weights` (K,) times the gradients to `total`, both by name."""
    for name, part in found.items():
        part.add_to(total[name], weights)


def _squares(values: torch.Tensor) -> torch.Tensor:
    """(K,) squared L2 norms of the rows of (K, n)."""
    squares: torch.Tensor = torch.linalg.vector_norm(values, dim=1).square_()
    return squares


def _zeroed(values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """`values` (K, ...) with zeros in `rows`. A weight of 0 would not do: 0 times infinity is NaN."""
    return torch.where(rows.view(-1, *[1] * (values.dim() - 1)), 0, values)


def in_float64(values: torch.Tensor) -> torch.Tensor:
    """`values` in float64, on the CPU if their device has no such numbers (MPS)."""
    return (values.cpu() if values.device.type == "mps" else values).double()


class Float64:
    """`in_float64`, into the memory of the last block: taking megabytes anew costs half of the time.

    What it returned before `restart` is overwritten by what it returns afterwards, in the same order.
    """

    def __init__(self) -> None:
        self._kept: list[torch.Tensor] = []
        self._next = 0

    def restart(self) -> None:
        """Begins another block."""
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
    """The gradients of single rows, from `inputs` (K, ...) and `signals`, the gradient of the outputs."""
    return _rule(layer, inputs, signals, convert)


def check_layer(layer: nn.Module) -> None:
    """Raises ValueError for a layer without a rule, as a subclass with a forward pass of its own is."""
    kinds = [kind for kind in _rule.registry if isinstance(layer, kind)]
    if not any(type(layer).forward is getattr(kind, "forward", None) for kind in kinds):
        raise ValueError(f"{type(layer).__name__} has no rule of its own")


@singledispatch
def _rule(layer: nn.Module, a: torch.Tensor, e: torch.Tensor, convert: Float64) -> ByParameter:
    raise TypeError(f"{type(layer).__name__} has no rule of its own")


@_rule.register
def _(layer: nn.Linear, a: torch.Tensor, e: torch.Tensor, convert: Float64) -> ByParameter:
    if a.dim() > 2:
        yield from _summed(a.flatten(1, -2), e.flatten(1, -2), convert)
        return
    signals = convert(e)
    yield "weight", Outer(signals, convert(a))
    yield "bias", Rows(signals)


def _summed(a: torch.Tensor, e: torch.Tensor, convert: Float64) -> ByParameter:
    """For a (K, T, k) and e (K, T, p): by inner products if these are smaller than the gradients."""
    if _are_long(e.shape[1], e.shape[2], a.shape[2]):
        yield "weight", Rows(convert(torch.bmm(e.transpose(1, 2), a).flatten(1)))
    else:
        yield "weight", Positions(convert(e), convert(a))
    yield "bias", Rows(convert(e).sum(1))


@_rule.register
def _(layer: nn.Conv1d, a: torch.Tensor, e: torch.Tensor, convert: Float64) -> ByParameter:
    lengths = layer.kernel_size, layer.dilation, _padding(layer), layer.stride
    kernel, dilation, padding, stride = ((own[0],) for own in lengths)
    sizes = (1, *kernel), (1, *dilation), (0, *padding), (1, *stride)  # a 2-d one of height 1
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
    """For the inputs of each position, `windows` (K, k, T), and e (K, p, T)."""
    if layer.groups == 1:
        yield from _summed(windows.transpose(1, 2), e.transpose(1, 2), convert)
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
