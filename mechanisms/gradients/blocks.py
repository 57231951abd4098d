"""Blocks of K rows, in which the numbers computed for a row do not depend on the other rows.

Linear algebra in floats gives a row other bits in a batch of another length, at another distance from a
boundary of 64 bytes, or near a place where threads cut a tensor. So a block always has K rows. Where places
matter, a hash of a row's content puts it into one of 16 lanes. Lane l has the places l, l + 16, l + 32 ...:
one more row in a batch moves the others of its lane by whole cache lines.
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
_CACHED, _STORED = 1 << 20, 1 << 24  # the most elements of a block: to stay in a cache; at all

ARRANGEMENTS = (1, False), (LANES, False), (LANES, True)
"""Numbers of lanes, and whether only one thread computes: the fastest arrangement first."""
Rows = tuple[torch.Tensor, ...]
"""Tensors (K, ...) whose row k belongs to row k of a block."""
Gradients = Callable[..., tuple[Mapping[str, RowGradients], torch.Tensor]]
"""Returns gradients by parameter name, and losses (K, ...), from the tensors of a block."""
Numbers = Callable[..., Iterable[torch.Tensor]]
"""Returns tensors (K, ...) that it computes from those of a block: row k belongs to row k."""


class Method(Protocol):
    """Computes the gradients of the rows of a block."""

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> tuple[Mapping[str, RowGradients], torch.Tensor]:
        """Returns the gradients by parameter name, and the (K,) losses, for x (K, ...) and y (K, ...).

        The next call may overwrite the gradients.
        """


@dataclass(frozen=True)
class Block:
    """The tensors (K, ...) of a block; rows stand at the places `taken` (K,) bool, zeros elsewhere."""

    rows: Rows
    taken: torch.Tensor


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Blocks of `rows` rows in `lanes` lanes, computed by one thread or by as many as torch has."""

    rows: int
    lanes: int
    one_thread: bool

    @contextmanager
    def threads(self) -> Iterator[None]:
        """Within it torch computes with one thread, if `one_thread`."""
        threads = torch.get_num_threads()
        if not self.one_thread or threads == 1:
            yield
            return
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)

    def assign_places(self, x: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yields for each block the numbers of its rows among x (n, ...), and the places of these rows."""
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

    def fill_block(self, own: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Returns a block of zeros with `own` (n, ...) at `places` (n,).

        The block has its own memory, as its distance from a boundary of 64 bytes counts, too.
        """
        block = own.new_zeros(self.rows, *own.shape[1:])
        block[places] = own
        return block

    def most_blocks(self, rows: int) -> int:
        """The most blocks that `rows` rows need: all of them may be in one lane."""
        return math.ceil(rows * self.lanes / self.rows)

    def keeps_bits(self, numbers: Numbers, first: Rows, other: Rows) -> bool:
        """Returns whether the `numbers` of a row keep their bits, whatever other rows its block has.

        It moves the rows of `first` to other places of their lanes: all of them, and then each half among
        rows of `other`. Both are blocks of stand-ins, with each tensor that `numbers` takes.
        """
        generator = torch.Generator().manual_seed(3)
        everyone = torch.ones(self.rows, dtype=torch.bool)
        half = torch.rand(self.rows, generator=generator) < 0.5
        before = _copy_to_cpu(numbers(*first))
        for kept in (everyone, half, ~half):
            moved = _permute_within_lanes(self.rows, self.lanes, generator)
            blocks = []
            for own, strange in zip(first, other, strict=True):
                changed = strange.clone()
                changed[moved[kept].to(own.device)] = own[kept.to(own.device)]
                blocks.append(changed)
            after = _copy_to_cpu(numbers(*blocks))
            if not all(torch.equal(a[kept], b[moved[kept]]) for a, b in zip(before, after, strict=True)):
                return False
        return True


@dataclass(frozen=True, kw_only=True)
class Way(Layout):
    """A layout, and the method that computes gradients in its blocks."""

    method: Gradients

    def gradients(self, block: Block) -> tuple[Mapping[str, RowGradients], torch.Tensor]:
        """Returns the method's gradients and losses of a block."""
        with self.threads():
            return self.method(*block.rows)

    def blocks(self, x: torch.Tensor, *others: torch.Tensor) -> Iterator[Block]:
        """Yields blocks of x (n, ...), whose content decides where a row stands, and of `others` (n, ...)."""
        for inside, places in self.assign_places(x):
            taken = torch.zeros(self.rows, dtype=torch.bool, device=x.device)
            taken[places] = True
            yield Block(tuple(self.fill_block(own[inside], places) for own in (x, *others)), taken)


def _copy_to_cpu(numbers: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [number.to("cpu", copy=True) for number in numbers]


def _permute_within_lanes(rows: int, lanes: int, generator: torch.Generator) -> torch.Tensor:
    """Returns a new place (rows,) for each place: a random permutation within each lane."""
    lane = torch.arange(rows) % lanes
    moved = torch.empty_like(lane)
    moved[torch.argsort(lane, stable=True)] = torch.argsort(torch.rand(rows, generator=generator) + lane)
    return moved


def lanes_of(x: torch.Tensor, lanes: int) -> torch.Tensor:
    """The lanes (n,), 0 to `lanes` - 1, of rows x (n, ...), by a multilinear hash of a row's bytes.

    The hash takes words of 32 bits (Lemire & Kaser 2014), or bytes if a row is no whole number of words.
    """
    content = x.reshape(len(x), -1).contiguous().view(torch.uint8)
    words = content.view(torch.uint8 if content.shape[1] % 4 else torch.int32).cpu()
    factors = _hash_factors(words.shape[1])
    sums = [(some.to(torch.int64) * factors).sum(1) for some in torch.split(words, _HASHED_ROWS)]
    return (torch.cat(sums) >> 32).remainder(lanes).to(x.device)


@lru_cache(maxsize=8)
def _hash_factors(number: int) -> torch.Tensor:
    return torch.randint(-(2**63), 2**63 - 1, (number,), generator=torch.Generator().manual_seed(0))


def places_of(lanes: torch.Tensor, number: int) -> torch.Tensor:
    """The places (n,) of rows in `lanes` (n,), of `number` lanes: row s of lane l is at s number + l."""
    of_lane = functional.one_hot(lanes, number)
    before = (of_lane.cumsum(0) - of_lane).gather(1, lanes.unsqueeze(1)).squeeze(1)
    return before * number + lanes


def block_rows(expected_rows: float, elements: float, lanes: int = 1) -> int:
    """Returns K for batches of `expected_rows` on average, if a row takes `elements` numbers.

    Longer blocks are faster as long as they stay in a cache, and most batches should fill whole blocks. K is
    a multiple of 16, so that all places of a lane are equally far from a boundary of 64 bytes. Where memory
    allows no 16 rows it is a power of two, and a lane has one place at most.
    """
    most = min(_MOST_ROWS, max(_LEAST_ROWS, int(_CACHED / elements)), int(_STORED / elements))
    if most < LANES:
        return 1 << max(0, most.bit_length() - 1)
    most -= most % LANES
    in_lane = expected_rows / lanes
    likely = lanes * (in_lane + 2 * math.sqrt(in_lane))
    blocks = math.ceil(likely / most)
    return min(most, LANES * math.ceil(likely / blocks / LANES))
