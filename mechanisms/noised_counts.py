"""Noised counts of a node's rows, beside private training: how good is the model on the rows of all members?

A member counts its rows (node.training.figures.tallies bounds how far one row moves the counts). It
rounds the counts to a grid, and adds N(0, s^2), rounded to the grid, to each. H = `honest` other members are
taken to be honest, and s = z Delta / sqrt(H + 1), as in `mechanisms.gradients.shared_noise`: only the sum of
all members has the whole noise, and the theorem there covers the rounding. With H = 0 each member adds all
the noise, and its own counts are as private as the sum.

Unit of privacy: one record (row) among those that a node counts, or one person, who counts with the mean of
the person's rows; neighbours: add or remove it; norm: L2 of how far it moves the counts, at most Delta. One
release costs a Gaussian event with multiplier z, not sampled (Balle & Wang 2018, Theorem 8). The ledger
charges it to all rows, also to those that the node trains on and does not count. So a ledger of both is an
upper bound for every row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Gaussian, releases_noise_multiplier, rounded_up
from mechanisms.arguments import count, positive
from mechanisms.gradients.shared_noise import RING_BITS
from mechanisms.mechanism import CountPlan
from mechanisms.noise.noise import add_units
from mechanisms.noise.randomness import Words
from mechanisms.person_means import person_means

COARSEST = 2.0**-6
"""The coarsest grid, in rows: rounding to it moves two neighbouring sums apart by no more than one step."""
_UNITS_A_STD = 16  # at least: then the theorem's eta is below 1e-30 in groups of up to 64
_LEAST_MULTIPLIER = 1.0  # less noise than one row moves the counts would gain nothing
_MOST_STD = 2.0**17  # in rows: more noise drowns any count, and would not fit
_TAILS = 10.0  # the ring of 32 bits has room for so many standard deviations of the noise


@dataclass(frozen=True, slots=True)
class CountNoise:
    """What all members agree on: z of one release, the number of releases of a run, and H (`honest`)."""

    noise_multiplier: float
    releases: int
    honest: int

    @property
    def event(self) -> Gaussian:
        """The cost of one offer with counts, if `honest` other members are honest."""
        return Gaussian(self.noise_multiplier)

    @property
    def composed_multiplier(self) -> float:
        """z of the single release that costs as much as all `releases`."""
        return self.noise_multiplier / math.sqrt(self.releases)


def count_noise(plan: CountPlan, epsilon: float, delta: float, honest: int) -> CountNoise:
    """Returns the noise with which all releases together cost at most (`plan.share` of epsilon, delta).

    Dong, Roth & Su 2022, Corollary 3.3. The multiplier is rounded up, so that all members compute the same.
    """
    least = releases_noise_multiplier(plan.share * epsilon, delta, plan.releases)
    return CountNoise(max(_LEAST_MULTIPLIER, rounded_up(least)), plan.releases, honest)


def multiplier_beside(noise: CountNoise | None) -> float:
    """Returns z of the one release that costs as much as all counts; infinite if nothing is counted."""
    return math.inf if noise is None else noise.composed_multiplier


@dataclass(frozen=True, slots=True)
class CountGrid:
    """The grid of counts that one row, or person, moves by at most `sensitivity` rows in L2.

    `members`: of the largest group. Raises ValueError if the noise would drown all counts.
    """

    noise: CountNoise
    sensitivity: float
    members: int

    def __post_init__(self) -> None:
        positive("sensitivity", self.sensitivity)
        count("members", self.members)
        if self.share_std > _MOST_STD:
            raise ValueError(
                f"noise_multiplier = {self.noise.noise_multiplier:g} is not allowed for counts: the noise of "
                f"{self.share_std:.3g} rows drowns them; raise epsilon or metric_share, or count less often"
            )

    @property
    def share_std(self) -> float:
        """s in rows: the std of the noise that each member adds."""
        return self.noise.noise_multiplier * self.sensitivity / math.sqrt(self.noise.honest + 1)

    @property
    def unit(self) -> float:
        """The grid's step in rows: a power of two, at most `COARSEST` and `share_std` / 16."""
        return min(COARSEST, 2.0 ** math.floor(math.log2(self.share_std / _UNITS_A_STD)))

    @property
    def most(self) -> int:
        """The largest number of units that a member may count, so that 32 bits hold the sum of all members.

        The sum with all noise (10 standard deviations) then wraps around modulo 2^32 with a probability below
        1e-22 in a coordinate. That would harm the figure alone, never the privacy.
        """
        noise = _TAILS * self.share_std / self.unit * math.sqrt(self.members)
        return int((2.0 ** (RING_BITS - 1) - 1 - noise) / self.members)

    def add_noise(self, counts: NDArray[np.float64], words: Words) -> NDArray[np.float64]:
        """Returns `counts` (size,), in rows, as whole units with this member's noise, float64 (size,).

        It clips them to +-`most` units first, which moves no two counts further apart.
        """
        units = np.clip(np.rint(counts / self.unit), -self.most, self.most)
        add_units(units, self.share_std, self.unit, words)
        return units

    def count_persons(
        self,
        places: NDArray[np.int64],
        amounts: NDArray[np.float64],
        persons: NDArray[np.int64],
        size: int,
    ) -> NDArray[np.float64]:
        """Returns counts (size,) in rows, in which each person counts once: see `person_means`.

        A row's `amounts` are at most `sensitivity` in L2.
        """
        units = person_means(places, amounts, persons, size, unit=self.unit, longest=self.sensitivity)
        return units * self.unit

    def sum_std(self, members: int) -> float:
        """The std in rows of the noise in each number of a sum of `members`."""
        return self.share_std * math.sqrt(members)
