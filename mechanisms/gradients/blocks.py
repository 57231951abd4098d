"""Blocks of rows, all of one length: where a row is placed so that its numbers do not depend on the others.

Linear algebra in floats gives a row other bits in a batch of another length, at another distance of the row
from a boundary of 64 bytes, or near a place where threads cut a tensor. So blocks have always K rows. Where
places matter a row has one of 16 lanes by a hash of its content, and lane l has the places l, l + 16, l + 32
...: another row in the batch moves the others of its lane by whole lines of a cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
from torch.nn import functional

from mechanisms.gradients.layers import RowGradients

LANES = 16
_LEAST_ROWS, _MOST_ROWS = 64, 512
_HASHED_ROWS = 128  # at a time: their 64-bit words stay in a cache
_CACHED, _STORED = 1 << 20, 1 << 24  # elements of a block that stay in a cache; that may be stored

ARRANGED = (1, False), (LANES, False), (LANES, True)
"""Lanes, and whether one thread computes: the fastest first."""
Rows = tuple[torch.Tensor, ...]
"""Tensors (K, ...) whose row k belongs to row k of a block."""
Gradients = Callable[..., tuple[Mapping[str, RowGradients], torch.Tensor]]
"""Computes gradients by parameter name, and losses (K, ...), from the tensors of a block."""
Numbers = Callable[..., Iterable[torch.Tensor]]
"""Returns what is computed from the tensors of a block: (K, ...) each, of the same rows."""


class Method(Protocol):
    """Computes the gradients of the rows of a block."""

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> tuple[Mapping[str, RowGradients], torch.Tensor]:
        """Returns the gradients by parameter name, and the (K,) losses, for x (K, ...) and y (K, ...).

        The gradients are good until the next call.
        """


@dataclass(frozen=True)
class Block:
    """The tensors (K, ...) of a block, and which places are `taken` (K,) by rows; the others hold zeros."""

    rows: Rows
    taken: torch.Tensor


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Blocks of `rows` with so many `lanes`, computed by one thread or by as many as torch has."""

    rows: int
    lanes: int
    one_thread: bool

    @contextmanager
    def threads(self) -> Iterator[None]:
        """Computes with as many threads as these blocks need."""
        threads = torch.get_num_threads()
        if not self.one_thread or threads == 1:
            yield
            return
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)

    def spread(self, x: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yields for each block which of x (n, ...) it has, and at which places: each lane's in order."""
        if not len(x):
            return
        if self.lanes == 1:
            numbers = torch.arange(len(x), device=x.device)
            for some in torch.split(numbers, self.rows):
                yield some, some - some[0]
            return
        places = places_of(lanes_of(x, self.lanes), self.lanes)
        for start in range(0, int(places.max()) + 1, self.rows):
            inside = ((places >= start) & (places < start + self.rows)).nonzero().squeeze(1)
            yield inside, places[inside] - start

    def filled(self, own: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """A block of zeros with `own` (n, ...) at `places` (n,).

        It has its own memory, because its distance from a boundary of 64 bytes counts, too.
        """
        block = own.new_zeros(self.rows, *own.shape[1:])
        block[places] = own
        return block

    def most_blocks(self, rows: int) -> int:
        """The most blocks that so many rows may take: all could be in one lane."""
        return math.ceil(rows * self.lanes / self.rows)

    def keeps_bits(self, numbers: Numbers, first: Rows, other: Rows) -> bool:
        """Whether `numbers` of a row keep their bits when all places change within lanes, and half the rows.

        `first` and `other`: two sets of stand-ins for a whole block, of each tensor that `numbers` takes.
        """
        generator = torch.Generator().manual_seed(3)
        everyone = torch.ones(self.rows, dtype=torch.bool)
        half = torch.rand(self.rows, generator=generator) < 0.5
        before = _copied(numbers(*first))
        for kept in (everyone, half, ~half):
            moved = _moved(self.rows, self.lanes, generator)
            blocks = []
            for own, strange in zip(first, other, strict=True):
                changed = strange.clone()
                changed[moved[kept].to(own.device)] = own[kept.to(own.device)]
                blocks.append(changed)
            after = _copied(numbers(*blocks))
            if not all(torch.equal(a[kept], b[moved[kept]]) for a, b in zip(before, after, strict=True)):
                return False
        return True


@dataclass(frozen=True, kw_only=True)
class Way(Layout):
    """A method in such blocks."""

    method: Gradients

    def gradients(self, block: Block) -> tuple[Mapping[str, RowGradients], torch.Tensor]:
        """See Gradients."""
        with self.threads():
            return self.method(*block.rows)

    def blocks(self, x: torch.Tensor, *others: torch.Tensor) -> Iterator[Block]:
        """Yields the blocks for x (n, ...), which decides where a row stands, and `others` (n, ...)."""
        for inside, places in self.spread(x):
            taken = torch.zeros(self.rows, dtype=torch.bool, device=x.device)
            taken[places] = True
            yield Block(tuple(self.filled(own[inside], places) for own in (x, *others)), taken)


def _copied(numbers: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [number.to("cpu", copy=True) for number in numbers]


def _moved(rows: int, lanes: int, generator: torch.Generator) -> torch.Tensor:
    """New places (rows,): a random permutation of each lane's."""
    lane = torch.arange(rows) % lanes
    moved = torch.empty_like(lane)
    moved[torch.argsort(lane, stable=True)] = torch.argsort(torch.rand(rows, generator=generator) + lane)
    return moved


def lanes_of(x: torch.Tensor, lanes: int) -> torch.Tensor:
    """The lanes (n,), 0 to `lanes` - 1, of rows x (n, ...): 4 bits of a multilinear hash of a row's bytes.

    The hash takes words of 32 bits (Lemire & Kaser 2014), single bytes if a row has no whole number of words.
    """
    content = x.reshape(len(x), -1).contiguous().view(torch.uint8)
    words = content.view(torch.uint8 if content.shape[1] % 4 else torch.int32).cpu()
    factors = _factors(words.shape[1])
    sums = [(some.to(torch.int64) * factors).sum(1) for some in torch.split(words, _HASHED_ROWS)]
    return (torch.cat(sums) >> 32).remainder(lanes).to(x.device)


@lru_cache(maxsize=8)
def _factors(number: int) -> torch.Tensor:
    return torch.randint(-(2**63), 2**63 - 1, (number,), generator=torch.Generator().manual_seed(0))


def places_of(lanes: torch.Tensor, number: int) -> torch.Tensor:
    """The places (n,) of rows with these `lanes` (n,): the s-th row of lane l is at s `number` + l."""
    of_lane = functional.one_hot(lanes, number)
    before = (of_lane.cumsum(0) - of_lane).gather(1, lanes.unsqueeze(1)).squeeze(1)
    return before * number + lanes


def block_rows(expected_rows: float, elements: float, lanes: int = 1) -> int:
    """K for batches of `expected_rows` in the mean, of which a row takes `elements` numbers.

    As long as a block stays in a cache longer ones are faster; and most batches should fill whole blocks. K
    is a multiple of 16, so that all places of a lane are equally far from a boundary of 64 bytes, or a power
    of two below it where memory allows no more: then a lane has a single place.
    """
    most = min(_MOST_ROWS, max(_LEAST_ROWS, int(_CACHED / elements)), int(_STORED / elements))
    if most < LANES:
        return 1 << max(0, most.bit_length() - 1)
    most -= most % LANES
    in_lane = expected_rows / lanes
    likely = lanes * (in_lane + 2 * math.sqrt(in_lane))
    blocks = math.ceil(likely / most)
    return min(most, LANES * math.ceil(likely / blocks / LANES))
