"""Which way of computing the gradients of single rows is right for a model on this machine, and the fastest.

Random stand-ins for rows decide, of the right shape: no record has a part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from mechanisms.gradients.blocks import LANES, Block, Method, Way, block_rows
from mechanisms.gradients.book_keeping import BookKeeping
from mechanisms.gradients.layers import RowGradients, add_all, norms_of
from mechanisms.gradients.objective import Objective
from mechanisms.gradients.per_example import OneByOne, PerExample

_COMPARED, _AGREE = 3, 1e-3  # rows that are compared with the other method; relative difference
# (lanes, one thread), the fastest first.
_WAYS = (1, False), (LANES, False), (LANES, True)

_FAILURES = (ValueError, TypeError, RuntimeError, IndexError, NotImplementedError)

BOOK_KEEPING = "book-keeping"
Found = Mapping[str, RowGradients]


class Trial:
    """Compares book-keeping with gradients in full, and blocks with the same rows among others.

    `found` holds gradients of the chosen way, for their shapes. Raises what the model raises for all
    stand-ins.
    """

    def __init__(self, objective: Objective, expected_rows: float) -> None:
        self._objective, self._expected = objective, expected_rows
        self._stand_in: Callable[..., torch.Tensor] = torch.randn
        self.found: list[RowGradients] = []

    def chosen(self) -> tuple[Way, str]:
        """Returns how the gradients are computed, and a line that says why so."""
        with _without_dropout(self._objective.model), torch.random.fork_rng(self._devices()):
            alone = OneByOne(self._objective)
            exact = self._first_gradients(alone)
            try:
                # A model that decides by the values in a batch fails here; rows would depend on each other.
                self._gradients(PerExample(self._objective), _COMPARED)
            except _FAILURES as error:
                why_not = f"vmap fails: {_first_line(error)}"
            else:
                way, why_not = self._tried(BookKeeping, exact)
                if way is not None:
                    return way, BOOK_KEEPING
                way, why_not_in_full = self._tried(PerExample, exact)
                if way is not None:
                    return way, f"each row in full (vmap), as book-keeping does not fit: {why_not}"
                why_not += f"; vmap: {why_not_in_full}"
            self.found = list(exact.values())
            return Way(alone, rows=1, lanes=1, one_thread=True), f"each row by itself, as {why_not}"

    def _tried(self, make: type[BookKeeping | PerExample], exact: Found) -> tuple[Way | None, str]:
        """Returns the fastest way of this method that is right, or None and the reason."""
        try:
            method = make(self._objective)
            small = self._gradients(method, _COMPARED)
            if not self._agree(small, exact):
                return None, "it disagrees with the gradients of single rows"
            elements = sum(_elements(part) for part in small.values()) / _COMPARED
            for lanes, one_thread in _WAYS:
                way = Way(method, block_rows(self._expected, elements, lanes), lanes, one_thread)
                if self._is_independent(way):
                    return way, ""
        except _FAILURES as error:
            return None, _first_line(error)
        return None, "rows of a block are not independent"

    def _first_gradients(self, exact: Method) -> Found:
        """Finds stand-ins that the model takes: one that looks numbers up refuses negative ones."""
        kinds: tuple[Callable[..., torch.Tensor], ...] = (torch.randn, torch.rand)
        for kind in kinds:
            self._stand_in = kind
            with suppress(IndexError, RuntimeError):
                return self._gradients(exact, _COMPARED)
        self._stand_in = _zeros
        return self._gradients(exact, _COMPARED)

    def _gradients(self, method: Method, rows: int) -> Found:
        x, y = self._stand_ins(rows, seed=1)
        return method(x, y)[0]

    def _agree(self, fast: Found, exact: Found) -> bool:
        """Whether norms and gradients of each row are the same but for rounding in float32."""
        own, norms = norms_of(fast).cpu(), norms_of(exact).cpu()
        if not torch.allclose(own, norms, rtol=_AGREE, atol=0.0):
            return False
        for row in range(_COMPARED):
            chosen = torch.zeros(_COMPARED, dtype=torch.float64)
            chosen[row] = 1.0
            difference = self._row_of(fast, chosen) - self._row_of(exact, chosen)
            if float(torch.linalg.vector_norm(difference)) > _AGREE * float(norms[row]):
                return False
        return True

    def _row_of(self, found: Found, chosen: torch.Tensor) -> torch.Tensor:
        """Returns the gradient (d,) of the row whose weight in `chosen` is 1."""
        vector, total = self._objective.zeros()
        add_all(found, total, chosen.to(vector.device))
        return vector.cpu()

    def _is_independent(self, way: Way) -> bool:
        """Whether a row keeps its bits if all places change within lanes, and if half of the rows change."""
        generator = torch.Generator().manual_seed(3)
        first, other = self._stand_ins(way.rows, 2), self._stand_ins(way.rows, 5)
        everyone = torch.ones(way.rows, dtype=torch.bool)
        half = torch.rand(way.rows, generator=generator) < 0.5
        before, self.found = _numbers(way.gradients(Block(*first, everyone))[0])
        for kept in (everyone, half, ~half):
            moved = _moved(way.rows, way.lanes, generator)
            blocks = []
            for own, strange in zip(first, other, strict=True):
                changed = strange.clone()
                changed[moved[kept].to(own.device)] = own[kept.to(own.device)]
                blocks.append(changed)
            after, _ = _numbers(way.gradients(Block(blocks[0], blocks[1], everyone))[0])
            if not all(torch.equal(a[kept], b[moved[kept]]) for a, b in zip(before, after, strict=True)):
                return False
        return True

    def _stand_ins(self, rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Random x (rows, ...) and y (rows, ...); integers are 0 or 1, and targets in [0, 1)."""
        generator = torch.Generator().manual_seed(seed)
        made = []
        draws: tuple[Callable[..., torch.Tensor], ...] = (self._stand_in, torch.rand)
        for own, draw in zip(self._objective.row, draws, strict=True):
            shape = (rows, *own.shape[1:])
            if own.is_floating_point():
                values = draw(shape, generator=generator, dtype=own.dtype)
            else:
                values = torch.randint(0, 2, shape, generator=generator).to(own.dtype)
            made.append(values.to(own.device))
        return made[0], made[1]

    def _devices(self) -> list[torch.device]:
        device = self._objective.row[0].device
        return [device] if device.type == "cuda" else []


def _numbers(found: Found) -> tuple[list[torch.Tensor], list[RowGradients]]:
    """Returns copies of all that follows from the rows, (K, ...) each."""
    numbers = [number for part in found.values() for number in part.parts]
    return [number.to("cpu", copy=True) for number in (*numbers, norms_of(found))], list(found.values())


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _moved(rows: int, lanes: int, generator: torch.Generator) -> torch.Tensor:
    """New places (rows,): a random permutation of each lane's."""
    lane = torch.arange(rows) % lanes
    moved = torch.empty_like(lane)
    moved[torch.argsort(lane, stable=True)] = torch.argsort(torch.rand(rows, generator=generator) + lane)
    return moved


def _elements(part: RowGradients) -> int:
    return sum(tensor.numel() for tensor in part.parts) + part.terms**2 * len(part.parts[0])


def _zeros(shape: tuple[int, ...], *, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    del generator
    return torch.zeros(shape, dtype=dtype)


@contextmanager
def _without_dropout(model: nn.Module) -> Iterator[None]:
    """Dropout layers are off: two methods draw different masks."""
    layers = [layer for layer in model.modules() if isinstance(layer, _DropoutNd) and layer.training]
    for layer in layers:
        layer.eval()
    try:
        yield
    finally:
        for layer in layers:
            layer.train()
