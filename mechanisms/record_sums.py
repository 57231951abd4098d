"""Noised sums over a node's records, from which `node.agree` computes a swarm's scales and lists.

Every record adds a vector of integers times a public unit, with an L2 norm of at most `record_norm`. Before
any other use, Gaussian noise on the same grid is added to the sums. So

    release = unit (sum of integers + rint(N / unit)),   N ~ N(0, (z record_norm)^2) in each coordinate,

is the Gaussian mechanism, rounded (mechanisms.noise.noise), and its delta is that of Balle & Wang 2018,
Theorem 8.

Unit of privacy: one record, or one person, who adds one vector for all of the person's rows; neighbours: add
or remove it; norm: L2. The number of records is not public: it is one of the sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Event, Gaussian, Unit, releases_noise_multiplier
from mechanisms.arguments import positive
from mechanisms.mechanism import Guarantee, Quiet
from mechanisms.noise.noise import add_units
from mechanisms.noise.randomness import Words
from mechanisms.units import RECORD_AGREED, noun_of

FINEST, COARSEST = 2.0**-20, 1.0
"""The smallest and largest unit. No number of a record exceeds 1."""
_UNITS_A_STD = 2.0**20


@dataclass(frozen=True, slots=True)
class RecordSums(Quiet):
    """Releases noised sums, each with `noise_multiplier`."""

    noise_multiplier: float
    record_norm: float
    guarantee: Guarantee

    name = "record-sums"

    @property
    def protects(self) -> str:
        """What the mechanism protects, in one sentence."""
        return (
            "your counts and sums are noised before they leave: what they can tell anybody about whether "
            f"any one {noun_of(self.guarantee.unit)} is in your data is bounded by epsilon"
        )

    @property
    def noise_std(self) -> float:
        """z record_norm: the std of the noise in one node's sum."""
        return self.noise_multiplier * self.record_norm

    @property
    def unit(self) -> float:
        """The grid's step, from public values: a power of two, about 2^-20 of the noise std if in range."""
        return min(COARSEST, max(FINEST, 2.0 ** math.floor(math.log2(self.noise_std / _UNITS_A_STD))))

    @property
    def per_training(self) -> tuple[Event, ...]:
        """One Gaussian release. Offering it is post-processing and costs nothing."""
        return (Gaussian(self.noise_multiplier),)

    def release(self, units: NDArray[np.int64], words: Words) -> NDArray[np.float64]:
        """Returns noised sums (d,), multiples of the unit, from the sums (d,) of the records' integers."""
        noised = units.astype(np.float64)
        add_units(noised, self.noise_std, self.unit, words)
        return noised * self.unit


def record_sums(
    epsilon: float, delta: float, releases: int, record_norm: float, unit: Unit = RECORD_AGREED
) -> RecordSums:
    """Builds the mechanism for `releases` that together cost (epsilon, delta).

    Dong, Roth & Su 2022, Corollary 3.3. `record_norm`: the largest L2 norm of the vector that one `unit`, a
    record or a person, adds. Raises ValueError or TypeError for a value that is not allowed.
    """
    positive("record_norm", record_norm)
    noise_multiplier = releases_noise_multiplier(epsilon, delta, releases)
    guarantee = Guarantee(unit, epsilon, delta, epsilon)
    return RecordSums(noise_multiplier, record_norm, guarantee)
