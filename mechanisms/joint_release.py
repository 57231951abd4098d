"""One noised release of many sums: how far a row moves all of them at once, and the best split of the noise.

A row is blocks v_b with |v_b| <= s_b in L2: a one in one of a column's cells (s = 1), also if the cells are
crossed with groups, or a number and its square (u, u^2), |u| <= 1 (s = sqrt 2). Members add up

    rint(c_b v_b / g)        over their rows, in units g, and then noise in whole units,

N(0, s^2) rounded to g with s = z Delta / sqrt(H + 1), as in `mechanisms.gradients.shared_noise`: the theorem
there says that the sum is as private as the sum with unrounded noise.

Sensitivity. A row is rounded before the addition, so a row more or less moves the sum by its own rounded
vector, whatever the other rows are. rint moves each of the at most k_b coordinates that are not 0 by at most
g / 2, and leaves zeros, so |rint(c_b v_b / g) g| <= c_b s_b + g sqrt(k_b) / 2, and over all blocks

    Delta^2 = sum over b of (c_b s_b + g sqrt(k_b) / 2)^2.

The final cut of each coordinate to a range moves no two sums further apart. One release costs a Gaussian
event with multiplier z (Balle & Wang 2018, Theorem 8). Unit of privacy: one record; neighbours: add or remove
it; norm: L2 of the whole vector.

The best split. Decoded, block b has noise of variance sigma^2 / c_b^2 in each coordinate. With weights a_b,
the least sum of a_b / c_b^2 for a given sum of c_b^2 s_b^2 has -a_b / c_b^4 + lambda s_b^2 = 0 (Lagrange, in
c_b^2), so

    c_b^2 = sqrt(a_b) / s_b, up to a common factor, which is chosen here so that sum of c_b^2 s_b^2 = 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Event, Gaussian
from mechanisms.arguments import count, positive
from mechanisms.gradients.shared_noise import RING_BITS, rounding_ratio
from mechanisms.mechanism import Guarantee, Quiet
from mechanisms.noise.noise import add_units, power_of_two
from mechanisms.noise.randomness import Words
from mechanisms.noised_counts import CountNoise

Array = NDArray[np.float64]

_SLACK = 1e-9  # the most that rounding the noise may add to epsilon
_TAILS = 10.0  # the ring of 32 bits has room for so many standard deviations of the noise
_MOST_ROUNDING = 0.01  # the most that rounding rows may add to Delta, of 1


@dataclass(frozen=True, slots=True)
class Block:
    """`size` coordinates of which a row moves at most `moved`, by at most `norm` in L2; `weight`: a_b."""

    name: str
    size: int
    norm: float
    moved: int
    weight: float

    def __post_init__(self) -> None:
        for name in ("size", "moved"):
            count(name, getattr(self, name))
        for name in ("norm", "weight"):
            positive(name, getattr(self, name))


def cells(name: str, size: int, weight: float) -> Block:
    """Returns the block of `size` cells, of which a row is in at most one."""
    return Block(name, size, 1.0, 1, weight)


def moments(name: str, groups: int, weight: float) -> Block:
    """Returns the block of (u, u^2), |u| <= 1, in `groups` groups, of which a row is in at most one."""
    return Block(name, 2 * groups, math.sqrt(2), 2, weight)


@dataclass(frozen=True)
class JointRelease:
    """What all members agree on. `records`: the most rows of all together; `members`: of the largest sum.

    Raises ValueError if so many rows leave no room in 32 bits for units that are fine beside the noise.
    """

    blocks: tuple[Block, ...]
    noise: CountNoise
    records: int
    members: int

    def __post_init__(self) -> None:
        count("records", self.records)
        count("members", self.members)
        eta = rounding_ratio(self.share_std / self.unit, self.members)
        is_seen = eta >= 1 or 2 * self.size * math.atanh(eta) > _SLACK
        if is_seen or self.sensitivity > 1 + _MOST_ROUNDING:
            raise ValueError(
                f"records = {self.records} is not allowed with {len(self.blocks)} blocks: rounding to "
                f"{RING_BITS} bits would be seen beside the noise; lower it"
            )

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """c_b of each block."""
        weighted = [math.sqrt(block.weight) for block in self.blocks]
        whole = sum(root * block.norm for root, block in zip(weighted, self.blocks, strict=True))
        pairs = zip(weighted, self.blocks, strict=True)
        return tuple(math.sqrt(root / block.norm / whole) for root, block in pairs)

    @property
    def _nominal_std(self) -> float:
        """The std of a member's noise for Delta = 1."""
        return self.noise.noise_multiplier / math.sqrt(self.noise.honest + 1)

    @cached_property
    def unit(self) -> float:
        """g: the least power of two for which 32 bits hold all rows in one cell and 10 std of noise."""
        noise = _TAILS * (1 + _MOST_ROUNDING) * self._nominal_std * math.sqrt(self.members)
        return power_of_two((self._most + noise) / (2.0 ** (RING_BITS - 1) - 1))

    @property
    def _most(self) -> float:
        """What all rows in one place add up to there, at most."""
        pairs = zip(self.scales, self.blocks, strict=True)
        return self.records * (max(scale * block.norm for scale, block in pairs) + _MOST_ROUNDING)

    @cached_property
    def sensitivity(self) -> float:
        """Delta: the most by which one row moves the vector, in L2."""
        parts = zip(self.scales, self.blocks, strict=True)
        return math.hypot(*(c * block.norm + self.unit * math.sqrt(block.moved) / 2 for c, block in parts))

    @property
    def share_std(self) -> float:
        """s: the std of the noise that each member adds."""
        return self._nominal_std * self.sensitivity

    @property
    def event(self) -> Gaussian:
        """The cost of an offer, if `noise.honest` other members are honest."""
        return self.noise.event

    @cached_property
    def places(self) -> dict[str, slice]:
        """Where each block is in the vector."""
        stops = pairwise(accumulate((block.size for block in self.blocks), initial=0))
        return {block.name: slice(*ends) for block, ends in zip(self.blocks, stops, strict=True)}

    @property
    def size(self) -> int:
        """d: the length of the vector."""
        return sum(block.size for block in self.blocks)

    def row_units(self, rows: Mapping[str, tuple[NDArray[np.int64], Array]]) -> Array:
        """Returns the sum (size,) of rows, each rounded to whole units.

        `rows` has for each block the places (n, m) of a row's values, all different, and the values (n, m), m
        at most `moved`. A row beyond the block's norm is shrunk to it; a place below 0 is nowhere.
        """
        found = np.zeros(self.size)
        for block, scale in zip(self.blocks, self.scales, strict=True):
            at, values = rows[block.name]
            if at.shape != values.shape or at.shape[1] > block.moved:
                raise ValueError(
                    f"{block.name}: values of shape {values.shape} are not allowed at {at.shape}"
                )
            kept = np.where(at >= 0, values, 0.0)
            lengths = np.sqrt((kept * kept).sum(axis=1, keepdims=True))
            kept = kept * np.minimum(1.0, block.norm / np.maximum(lengths, block.norm))
            units = np.rint(scale * kept / self.unit)
            found[self.places[block.name]] = np.bincount(
                np.maximum(at, 0).ravel(), units.ravel(), minlength=block.size
            )
        return found

    def add_noise(self, units: Array, words: Words) -> Array:
        """Returns `units` (size,), cut to what all rows could be, with this member's noise."""
        most = self._most / self.unit
        noised = np.clip(units, -most, most)
        add_units(noised, self.share_std, self.unit, words)
        return noised

    def decode(self, words: NDArray[np.uint32]) -> dict[str, Array]:
        """Returns the noised sums of each block (block.size,), from the words (size,) of all members."""
        numbers = words.view(np.int32).astype(np.float64) * self.unit
        pairs = zip(self.blocks, self.scales, strict=True)
        return {block.name: numbers[self.places[block.name]] / scale for block, scale in pairs}

    def sum_std(self, name: str, members: int) -> float:
        """The std of the noise in each number of a block of a decoded sum of `members`."""
        place = next(place for place, block in enumerate(self.blocks) if block.name == name)
        return float(self.share_std * math.sqrt(members) / self.scales[place])


@dataclass(frozen=True, slots=True)
class JointNoise(Quiet):
    """One joint release, as a node charges it."""

    noise: CountNoise
    guarantee: Guarantee

    name = "joint-release"

    @property
    def protects(self) -> str:
        """What the mechanism protects, in one sentence."""
        honest = self.noise.honest
        whom = f", as long as at least {honest} of them are honest" if honest else ""
        return (
            "your counts have noise: epsilon bounds what all others together learn about any one of your "
            f"rows{whom}"
        )

    @property
    def per_offer(self) -> tuple[Event, ...]:
        """The cost of the release, which counts once it is offered, even if the sum fails."""
        return (self.noise.event,)


def common_sizes(tables: Sequence[Array], stds: Sequence[float]) -> tuple[Array, float]:
    """Returns the groups' sizes (g,) by all `tables` (g, cells) of the same rows, and their std.

    The row sums of each table estimate them with a variance of std^2 cells, and count inversely to it.
    """
    weights = [1 / (std * std * table.shape[1]) for table, std in zip(tables, stds, strict=True)]
    sizes = sum(weight * table.sum(axis=1) for weight, table in zip(weights, tables, strict=True))
    return np.asarray(sizes) / sum(weights), 1 / math.sqrt(sum(weights))


def projected(values: Array, total: float) -> Array:
    """Returns the nearest point (n,) without negative numbers whose sum is `total`; zeros if that is below 0.

    Duchi et al. 2008, Figure 1.
    """
    if total <= 0:
        return np.zeros(len(values))
    falling = np.sort(values)[::-1]
    shifts = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    shift = float(shifts[np.flatnonzero(falling > shifts)[-1]])
    return np.clip(values - shift, 0.0, None)
