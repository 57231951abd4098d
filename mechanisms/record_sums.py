"""Noised sums over a node's records, from which `node.agree` computes a swarm's scales and lists.

Every record adds a vector of integers times a public unit, with an L2 norm of at most `record_norm`; before
any other use the sums get Gaussian noise on the same grid. So

    release = unit (sum of integers + rint(N / unit)),   N ~ N(0, (z record_norm)^2) in each coordinate,

is the Gaussian mechanism, rounded (mechanisms.noise.noise), and its delta is that of Balle & Wang 2018,
Theorem 8.

Unit of privacy: one record, or one person, who adds one vector for all rows together; neighbours: add or
remove it; norm: L2. The number of records is not public: it is one of the sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Event, Gaussian, Unit, releases_noise_multiplier
from mechanisms.arguments import count, positive
from mechanisms.mechanism import Guarantee, Quiet
from mechanisms.noise.noise import add_units
from mechanisms.noise.randomness import Words
from mechanisms.units import RECORD_AGREED, short

FINEST, COARSEST = 2.0**-20, 1.0
"""The range of units, as fractions of 1; no record's number exceeds 1."""
_UNITS_A_STD = 2.0**20
SIGMAS = 8.0


@dataclass(frozen=True, slots=True)
class RecordSums(Quiet):
    """Releases noised sums with `noise_multiplier` each; `records`: the most records that a node has."""

    noise_multiplier: float
    record_norm: float
    records: int
    guarantee: Guarantee

    @property
    def name(self) -> str:
        """The name in results."""
        return "record-sums"

    @property
    def protects(self) -> str:
        """What the mechanism protects, in one sentence."""
        return (
            "your counts and sums are noised before they leave: what they can tell anybody about whether "
            f"any one {short(self.guarantee.unit)} is in your data is bounded by epsilon"
        )

    @property
    def noise_std(self) -> float:
        """z record_norm: the std of the noise in one node's sum."""
        return self.noise_multiplier * self.record_norm

    @property
    def unit(self) -> float:
        """A power of two, small compared with the noise, from public values alone."""
        return min(COARSEST, max(FINEST, 2.0 ** math.floor(math.log2(self.noise_std / _UNITS_A_STD))))

    @property
    def bound(self) -> float:
        """The bound of a sum divided by `records`: 1 for the records, plus 8 sigma."""
        return 1 + SIGMAS * self.noise_std / self.records

    @property
    def per_training(self) -> tuple[Event, ...]:
        """One Gaussian release; offering it is post-processing."""
        return (Gaussian(self.noise_multiplier),)

    def released(self, units: NDArray[np.int64], words: Words) -> NDArray[np.float64]:
        """Returns (d,) noised sums, in multiples of the unit, from (d,) sums of the records' integers."""
        noised = units.astype(np.float64)
        add_units(noised, self.noise_std, self.unit, words)
        return noised * self.unit


def record_sums(
    epsilon: float, delta: float, releases: int, record_norm: float, records: int, unit: Unit = RECORD_AGREED
) -> RecordSums:
    """Builds it for `releases` that together cost (epsilon, delta) (Dong, Roth & Su 2022, Corollary 3.3).

    `record_norm`: the largest L2 norm of a record's vector; `unit`: whose it is, a record's or a person's.
    Raises ValueError or TypeError for bad values.
    """
    positive("record_norm", record_norm)
    count("records", records)
    noise_multiplier = releases_noise_multiplier(epsilon, delta, releases)
    guarantee = Guarantee(unit, epsilon, delta, epsilon)
    return RecordSums(noise_multiplier, record_norm, records, guarantee)
