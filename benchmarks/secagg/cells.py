"""The measurements of a secure sum: a cell is one protocol with n peers and d coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

import numpy as np
from numpy.random import default_rng  # imported here: at its first use, in a round, its memory would count

from protocol.vectors.pieces import WORD_BYTES, Floats

RING, SEED, MASKED, GLOO = "additive-ring", "additive-seed", "masked", "gloo"
PROTOCOLS = (RING, SEED, MASKED, GLOO)
CLIP = 4.0
"""B: the coordinates are uniform within +-B."""


@dataclass(frozen=True)
class Cell:
    """One protocol, group size and dimension."""

    protocol: str
    n: int
    d: int

    def vector(self, member: int, round: int) -> Floats:
        """The vector (d,) float32, within +-CLIP, that a member contributes to a round."""
        values = default_rng((round, member)).random(self.d, dtype=np.float32)
        values *= np.float32(2 * CLIP)
        values -= np.float32(CLIP)
        return values

    def error(self, mean: Floats, round: int) -> float:
        """The largest difference between a round's mean (d,) and the mean in float64."""
        exact = np.zeros(self.d)
        for member in range(self.n):
            exact += self.vector(member, round)
        exact /= self.n
        exact -= mean
        return float(np.abs(exact, out=exact).max())


@dataclass(frozen=True)
class Sample:
    """What one peer spent in one round; `mean` is the digest of the mean that it obtained."""

    cpu_s: float
    sent: Mapping[str, int]
    peak_bytes: int
    aggregate_s: float
    mean: bytes
    error: float | None
    """The error of the mean, for one peer only, as all peers have the same mean."""

    @property
    def bytes_sent(self) -> int:
        """The bytes sent in all phases."""
        return sum(self.sent.values())


@dataclass(frozen=True)
class Taken:
    """A round: seconds from the start signal to the last peer's mean, and what each peer spent."""

    wall_s: float
    samples: Sequence[Sample]


@dataclass(frozen=True)
class Result:
    """A cell's rounds without the warm-up."""

    cell: Cell
    rounds: Sequence[Taken]

    @property
    def wall_s(self) -> float:
        """The seconds of the median round."""
        return median(taken.wall_s for taken in self.rounds)

    @property
    def samples(self) -> list[Sample]:
        """The samples of every peer in every round."""
        return [sample for taken in self.rounds for sample in taken.samples]

    def of_peers(self, figure: Callable[[Sample], float]) -> list[float]:
        """The figure of every sample, in the order of `samples`."""
        return [figure(sample) for sample in self.samples]

    @property
    def cpu_s(self) -> float:
        """The median CPU seconds over all peers and rounds."""
        return median(self.of_peers(lambda sample: sample.cpu_s))

    @property
    def bytes_sent(self) -> float:
        """The median bytes of frames that a peer sends in a round."""
        return median(self.of_peers(lambda sample: sample.bytes_sent))

    @property
    def peak_bytes(self) -> float:
        """The median peak of resident memory above rest, in bytes; a peer's own vector counts."""
        return median(self.of_peers(lambda sample: sample.peak_bytes))

    @property
    def peak_vectors(self) -> float:
        """`peak_bytes` in vectors of 4 d bytes."""
        return self.peak_bytes / (WORD_BYTES * self.cell.d)

    @property
    def aggregate_s(self) -> float:
        """The seconds from the GROUP message to the mean, of the slowest peer; the median over the rounds."""
        return median(self._aggregate_s)

    @property
    def _aggregate_s(self) -> list[float]:
        return [max(sample.aggregate_s for sample in taken.samples) for taken in self.rounds]

    @property
    def max_error(self) -> float:
        """The error of the worst coordinate in the worst round."""
        return max(sample.error for sample in self.samples if sample.error is not None)

    def record(self) -> dict[str, object]:
        """The figures for the JSON file."""
        phases = sorted({phase for sample in self.samples for phase in sample.sent})
        return {
            **asdict(self.cell),
            **_spread("wall_s", [taken.wall_s for taken in self.rounds]),
            **_spread("aggregate_s", self._aggregate_s),
            **_spread("cpu_s", self.of_peers(lambda sample: sample.cpu_s)),
            **_spread("bytes_sent", self.of_peers(lambda sample: sample.bytes_sent)),
            "bytes_by_phase": {
                phase: median(sample.sent.get(phase, 0) for sample in self.samples) for phase in phases
            },
            **_spread("peak_bytes", self.of_peers(lambda sample: sample.peak_bytes)),
            "peak_vectors": self.peak_vectors,
            "max_error": self.max_error,
            "max_error_of_bound": self.max_error / CLIP,
            "rounds": len(self.rounds),
        }


def _spread(name: str, values: Sequence[float]) -> dict[str, object]:
    return {name: median(values), f"{name}_min": min(values), f"{name}_max": max(values)}


@dataclass(frozen=True)
class Exponents:
    """The growth of bytes and CPU time with n at fixed d: cost ~ n^exponent."""

    protocol: str
    d: int
    bytes_sent: float
    cpu_s: float


def exponents(results: Sequence[Result]) -> list[Exponents]:
    """Fit exponents for each protocol and dimension that was measured with two group sizes or more."""
    families: dict[tuple[str, int], list[Result]] = {}
    for result in results:
        families.setdefault((result.cell.protocol, result.cell.d), []).append(result)
    return [
        Exponents(
            protocol,
            d,
            slope([(one.cell.n, one.bytes_sent) for one in family]),
            slope([(one.cell.n, one.cpu_s) for one in family]),
        )
        for (protocol, d), family in families.items()
        if len({one.cell.n for one in family}) > 1
    ]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The least-squares exponent e of y ~ x^e for (x, y) pairs; NaN if a y is not positive."""
    if min(y for _, y in points) <= 0:
        return math.nan
    logs = np.log(np.array(points, dtype=np.float64))
    x, y = (logs - logs.mean(axis=0)).T
    return float((x @ y) / (x @ x))
