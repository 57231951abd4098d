"""Rules that adapt a clipping radius to the updates: pure functions of a node's memory.

The radius sets the noise level, which the others can see. So a radius that depends on un-noised data is a
release of its own: `Window` is such a rule and says so. A fixed radius costs nothing. A function of noised
values costs nothing either, by post-processing: `AggregateWindow` follows noised aggregates, `Quantile`
follows noised bits, for which it pays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from mechanisms.arguments import count, positive, probability
from mechanisms.mechanism import Floats, Memory
from mechanisms.noise.clipping import norm
from mechanisms.noise.noise import fill_gaussian
from mechanisms.noise.randomness import Words

LEAST_RADIUS = 1e-12
"""A radius is never 0: the noise would then be 0, too. The reference system has the same floor."""


class RadiusRule(Protocol):
    """Sets the clipping radius of the next offer from a memory, which offers and aggregates change."""

    @property
    def outside(self) -> str:
        """What epsilon does not cover because of this rule; "" if it covers everything."""

    def radius(self, memory: Memory) -> float:
        """The clipping radius of the next offer, at most `clipping_radius`."""

    def after_offer(self, size: float, memory: Memory, words: Words) -> Memory:
        """The memory after an offer, of an update whose L2 norm was `size` before clipping and noise."""

    def after_aggregate(self, mean: Floats, members: int, noise_std: float, memory: Memory) -> Memory:
        """The memory after an aggregate: the `mean` (d,) of offers, each with noise of `noise_std`."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A constant, public radius; the memory stays unchanged."""

    clipping_radius: float
    outside: str = field(default="", init=False)

    def __post_init__(self) -> None:
        positive("clipping_radius", self.clipping_radius)

    def radius(self, memory: Memory) -> float:
        """`clipping_radius`."""
        return self.clipping_radius

    def after_offer(self, size: float, memory: Memory, words: Words) -> Memory:
        """Returns `memory` unchanged."""
        return memory

    def after_aggregate(self, mean: Floats, members: int, noise_std: float, memory: Memory) -> Memory:
        """Returns `memory` unchanged."""
        return memory


@dataclass(frozen=True, slots=True)
class Window:
    """The mean norm of the last `window` updates before noise, at most `clipping_radius`.

    Before the first offer it is `clipping_radius`. This is the adaptive rule that the documentation of the
    reference peer-to-peer system describes. Its norms are private data that no noise covers.
    """

    clipping_radius: float
    window: int
    outside: str = field(
        default="the clipping radius: it is the mean norm of your last updates, taken before noise, and the "
        "noise level shows it; epsilon holds for the noise given the radius",
        init=False,
    )

    def __post_init__(self) -> None:
        positive("clipping_radius", self.clipping_radius)
        count("window", self.window)

    def radius(self, memory: Memory) -> float:
        """The mean of the window, between `LEAST_RADIUS` and `clipping_radius`."""
        norms = _row(memory)
        if not norms:
            return self.clipping_radius
        return max(LEAST_RADIUS, min(math.fsum(norms) / len(norms), self.clipping_radius))

    def after_offer(self, size: float, memory: Memory, words: Words) -> Memory:
        """Adds the update's norm to the window."""
        return ((*_row(memory), size)[-self.window :],)

    def after_aggregate(self, mean: Floats, members: int, noise_std: float, memory: Memory) -> Memory:
        """Returns `memory` unchanged: aggregates do not count."""
        return memory


def aggregate_norm(mean: Floats, noise_stds: tuple[float, ...]) -> float:
    """Returns the L2 norm of a mean (d,) of n noised updates, less what the noise adds to it on average.

    sqrt(max(0, ||mean||^2 - d sum(std_i^2) / n^2)): the second term is how much the noise adds to
    E||mean||^2. The norm costs nothing, by post-processing, only if all n offers were noised. Raises
    ValueError if one was not.
    """
    if not noise_stds or min(noise_stds) <= 0:
        raise ValueError(
            f"noise_stds = {noise_stds} is not allowed: every member's offer must be noised, or the norm of "
            "the mean is a release of the others' data"
        )
    variance = math.fsum(std * std for std in noise_stds) / len(noise_stds) ** 2
    return math.sqrt(max(0.0, norm(mean) ** 2 - mean.size * variance))


@dataclass(frozen=True, slots=True)
class AggregateWindow:
    """`factor` times the mean `aggregate_norm` of the last `window` aggregates.

    It is at least `least_share` of `clipping_radius` and at most `clipping_radius`, which it also is before
    there are `window` aggregates.

    The mean of clipped updates is never longer than the radius, so without the factor, which is public, the
    radius could only fall. The rule adapts badly under large noise: the norm is then mostly 0 or far too
    large. It assumes that each member's noise is as large as this node's, which is so for members that saw
    the same aggregates.
    """

    clipping_radius: float
    window: int
    factor: float = 2.0
    least_share: float = 0.01
    outside: str = field(default="", init=False)

    def __post_init__(self) -> None:
        positive("clipping_radius", self.clipping_radius)
        count("window", self.window)
        positive("factor", self.factor)
        probability("least_share", self.least_share)

    def radius(self, memory: Memory) -> float:
        """The rule's radius; `clipping_radius` before the window is full."""
        norms = _row(memory)
        if len(norms) < self.window:
            return self.clipping_radius
        wanted = self.factor * math.fsum(norms) / len(norms)
        return max(self.least_share * self.clipping_radius, min(wanted, self.clipping_radius))

    def after_offer(self, size: float, memory: Memory, words: Words) -> Memory:
        """Returns `memory` unchanged: the node's own norm does not count."""
        return memory

    def after_aggregate(self, mean: Floats, members: int, noise_std: float, memory: Memory) -> Memory:
        """Adds the `aggregate_norm` of `mean` to the window."""
        size = aggregate_norm(mean, (noise_std,) * members)
        return ((*_row(memory), size)[-self.window :],)


@dataclass(frozen=True, slots=True)
class Quantile:
    """Andrew et al. 2021 (arXiv 1905.03871): C <- C exp(-rate (b - quantile)), b = 1[norm <= C] + noise.

    The paper's b is a mean over clients; here each node noises its own bit. Another data set can turn 0 into
    1, a sensitivity of 1. So `bit_noise_std` is the noise multiplier of the bit, and the ledger charges it as
    such. The rule clips the noised bit to [0, 1], which is post-processing: with `quantile` = .5 one bit
    moves C by a factor of at most exp(rate / 2). At the budgets of local privacy b is nearly all noise.
    """

    clipping_radius: float
    bit_noise_std: float
    rate: float = 0.2
    quantile: float = 0.5
    least_share: float = 0.01
    outside: str = field(default="", init=False)

    def __post_init__(self) -> None:
        for name in ("clipping_radius", "bit_noise_std", "rate"):
            positive(name, getattr(self, name))
        for name in ("quantile", "least_share"):
            probability(name, getattr(self, name))

    def radius(self, memory: Memory) -> float:
        """C from the memory; `clipping_radius` before the first offer."""
        return _row(memory)[0] if _row(memory) else self.clipping_radius

    def after_offer(self, size: float, memory: Memory, words: Words) -> Memory:
        """Moves C by a noised bit, which says whether the update was within C."""
        before = self.radius(memory)
        noise = np.empty(1, dtype=np.float32)
        fill_gaussian(noise, self.bit_noise_std, words)
        bit = min(1.0, max(0.0, float(size <= before) + float(noise[0])))
        after = before * math.exp(-self.rate * (bit - self.quantile))
        return ((max(self.least_share * self.clipping_radius, min(after, self.clipping_radius)),),)

    def after_aggregate(self, mean: Floats, members: int, noise_std: float, memory: Memory) -> Memory:
        """Returns `memory` unchanged: aggregates do not count."""
        return memory


def _row(memory: Memory) -> tuple[float, ...]:
    return memory[0] if memory else ()
