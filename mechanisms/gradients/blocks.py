"""Blocks of rows, all of one length: where a row is placed so that its numbers do not depend on the others.

Linear algebra in floats gives a row other bits in a batch of another length, at another distance of the row
from a boundary of 64 bytes, or near a place where threads cut a tensor. So blocks have always K rows. Where
places matter a row has one of 16 lanes by a hash of its content, and lane l has the places l, l + 16, l + 32
...: another row in the batch moves the others of its lane by whole lines of a cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
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


class Method(Protocol):
    """Computes the gradients of the rows of a block."""

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> tuple[Mapping[str, RowGradients], torch.Tensor]:
        """Returns the gradients by parameter name, and the (K,) losses, for x (K, ...) and y (K, ...).

        The gradients are good until the next call.
        """


@dataclass(frozen=True)
class Block:
    """`x` (K, ...), `y` (K, ...), and which places are `taken` (K,) by rows; the others hold zeros."""

    x: torch.Tensor
    y: torch.Tensor
    taken: torch.Tensor


@dataclass(frozen=True)
class Way:
    """A method, in blocks of `rows` with so many `lanes`, by one thread or by as many as torch has."""

    method: Method
    rows: int
    lanes: int
    one_thread: bool

    def gradients(self, block: Block) -> tuple[Mapping[str, RowGradients], torch.Tensor]:
        """See Method."""
        threads = torch.get_num_threads()
        if not self.one_thread or threads == 1:
            return self.method(block.x, block.y)
        torch.set_num_threads(1)
        try:
            return self.method(block.x, block.y)
        finally:
            torch.set_num_threads(threads)

    def blocks(self, x: torch.Tensor, y: torch.Tensor) -> Iterator[Block]:
        """Yields the blocks for x (n, ...) and y (n, ...): each lane's rows, in order, in its places."""
        if not len(x):
            return
        if self.lanes == 1:
            for start in range(0, len(x), self.rows):
                some = slice(start, start + self.rows)
                yield self._block(x[some], y[some], slice(len(x[some])))
            return
        places = places_of(lanes_of(x, self.lanes), self.lanes)
        for start in range(0, int(places.max()) + 1, self.rows):
            inside = ((places >= start) & (places < start + self.rows)).nonzero().squeeze(1)
            yield self._block(x[inside], y[inside], places[inside] - start)

    def _block(self, x: torch.Tensor, y: torch.Tensor, places: torch.Tensor | slice) -> Block:
        """A block in memory of its own, as its distance from a boundary counts, too."""
        taken = torch.zeros(self.rows, dtype=torch.bool, device=x.device)
        taken[places] = True
        values = [own.new_zeros(self.rows, *own.shape[1:]) for own in (x, y)]
        for block, own in zip(values, (x, y), strict=True):
            block[places] = own
        return Block(values[0], values[1], taken)

    def most_blocks(self, rows: int) -> int:
        """The most blocks that so many rows may take: all could be in one lane."""
        return math.ceil(rows * self.lanes / self.rows)


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
