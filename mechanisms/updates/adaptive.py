"""Rules that adapt a clipping radius to the updates: pure functions of a node's memory.

The radius sets the noise level, which the others can see. So a radius that depends on un-noised data is a
release of its own: `Window` is such a rule and says so. A fixed radius costs nothing, nor, by
post-processing, does any function of noised or aggregated values: `AggregateWindow`, and `Quantile`, which
pays for its bits.
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
"""A radius is never 0, as the noise would then be 0; the reference system has the same floor."""


class RadiusRule(Protocol):
    """A rule for the radius of the next offer and the memory after an offer."""

    @property
    def outside(self) -> str:
        """What epsilon does not cover because of this rule; "" if it covers everything."""

    def radius(self, memory: Memory) -> float:
        """The clipping radius of the next offer, at most the cap."""

    def offered(self, size: float, memory: Memory, words: Words) -> Memory:
        """The memory after the offer of an update with L2 norm `size` (before clipping and noise)."""

    def aggregated(self, mean: Floats, members: int, noise_std: float, memory: Memory) -> Memory:
        """The memory after an aggregate: the `mean` (d,) of offers with noise of `noise_std` each."""


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

    def offered(self, size: float, memory: Memory, words: Words) -> Memory:
        """Returns `memory` unchanged."""
        return memory

    def aggregated(self, mean: Floats, members: int, noise_std: float, memory: Memory) -> Memory:
        """Returns `memory` unchanged."""
        return memory


@dataclass(frozen=True, slots=True)
class Window:
    """The mean norm of the last `window` updates, stored before noise, at most `clipping_radius`.

    An empty window gives `clipping_radius`. This is the window-based adaptive rule that the documentation of
    the reference peer-to-peer system describes. Its norms are private data that no noise covers.
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
        """Mean of the window, between LEAST_RADIUS and `clipping_radius`."""
        norms = _row(memory)
        if not norms:
            return self.clipping_radius
        return max(LEAST_RADIUS, min(math.fsum(norms) / len(norms), self.clipping_radius))

    def offered(self, size: float, memory: Memory, words: Words) -> Memory:
        """Adds the update's norm to the window."""
        return (_last((*_row(memory), size), self.window),)

    def aggregated(self, mean: Floats, members: int, noise_std: float, memory: Memory) -> Memory:
        """Returns `memory` unchanged: aggregates do not count."""
        return memory


def aggregate_norm(mean: Floats, noise_stds: tuple[float, ...]) -> float:
    """Returns the debiased L2 norm of a mean (d,) of noised updates: without the noise's expected part.

    sqrt(max(0, ||X/n||^2 - d sum(std_i^2)/n^2)): E||X/n||^2 exceeds the un-noised value by the second term.
    Free by post-processing only if all n offers were noised: raises ValueError if one was not.
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
    """`factor` times the mean debiased norm of the last `window` aggregates, between floor and cap.

    Before there are `window` aggregates the radius is `clipping_radius`.

    The factor is public: the mean of clipped updates is never longer than the radius, so without a factor the
    radius could only fall. The rule adapts badly under large noise: the debiased norm is then mostly 0 or far
    too large. It assumes that each member's noise equals this node's, as for all that saw the same
    aggregates.
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

    def offered(self, size: float, memory: Memory, words: Words) -> Memory:
        """Returns `memory` unchanged: the node's own norm does not count."""
        return memory

    def aggregated(self, mean: Floats, members: int, noise_std: float, memory: Memory) -> Memory:
        """Adds the aggregate's debiased norm to the window."""
        size = aggregate_norm(mean, (noise_std,) * members)
        return (_last((*_row(memory), size), self.window),)


@dataclass(frozen=True, slots=True)
class Quantile:
    """Andrew et al. 2021 (arXiv 1905.03871): C <- C exp(-rate (b - quantile)), b = 1[norm <= C] + noise.

    In the local model each node noises its own bit, so there is no mean over clients: b is one bit. Replacing
    the data set can turn 0 into 1: sensitivity 1, so `bit_noise_std` is the bit's noise multiplier and is
    charged as such. The rule first clips the noised bit to [0, 1], which is post-processing, so one draw
    moves C by at most a factor exp(rate / 2) for `quantile` .5. At local budgets b is nearly noise.
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

    def offered(self, size: float, memory: Memory, words: Words) -> Memory:
        """Moves C by one noised bit."""
        before = self.radius(memory)
        noise = np.empty(1, dtype=np.float32)
        fill_gaussian(noise, self.bit_noise_std, words)
        bit = min(1.0, max(0.0, float(size <= before) + float(noise[0])))
        after = before * math.exp(-self.rate * (bit - self.quantile))
        return ((max(self.least_share * self.clipping_radius, min(after, self.clipping_radius)),),)

    def aggregated(self, mean: Floats, members: int, noise_std: float, memory: Memory) -> Memory:
        """Returns `memory` unchanged: aggregates do not count."""
        return memory


def _row(memory: Memory) -> tuple[float, ...]:
    return memory[0] if memory else ()


def _last(norms: tuple[float, ...], window: int) -> tuple[float, ...]:
    return norms[-window:]
