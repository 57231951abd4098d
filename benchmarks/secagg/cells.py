"""What is measured of secure sums: a cell is one protocol with n peers and d coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

import numpy as np
from numpy.random import default_rng  # numpy loads it at first use: in a round its memory would count

from protocol.vectors.pieces import WORD_BYTES, Floats
from protocol.vectors.ring import NARROW, WIDE, Ring

RING, SEED, MASKED, SHORT, GLOO = "additive-ring", "additive-seed", "masked", "masked-16", "gloo"
PROTOCOLS = (RING, SEED, MASKED, SHORT, GLOO)
RINGS = {MASKED: WIDE, SHORT: NARROW}
"""The words of each masked protocol."""
CLIP = 4.0
"""B: all coordinates are uniform within +-B."""


@dataclass(frozen=True)
class Cell:
    """One protocol, group size and dimension."""

    protocol: str
    n: int
    d: int

    @property
    def ring(self) -> Ring | None:
        """The words of a masked sum; None if the sum is not masked."""
        return RINGS.get(self.protocol)

    def vector(self, member: int, round: int) -> Floats:
        """Return the vector (d,) float32, within +-CLIP, that a member contributes to a round."""
        values = default_rng((round, member)).random(self.d, dtype=np.float32)
        values *= np.float32(2 * CLIP)
        values -= np.float32(CLIP)
        return values

    def error(self, mean: Floats, round: int) -> float:
        """Return the largest difference between `mean` (d,) and the round's mean in float64."""
        exact = np.zeros(self.d)
        for member in range(self.n):
            exact += self.vector(member, round)
        exact /= self.n
        exact -= mean
        return float(np.abs(exact, out=exact).max())


@dataclass(frozen=True)
class Sample:
    """What one peer spent in one round.

    `sent`: bytes of frames by phase. `aggregate_s`: seconds from the GROUP message to the mean. `mean`: the
    digest of the mean that the peer holds.
    """

    cpu_s: float
    sent: Mapping[str, int]
    peak_bytes: int
    aggregate_s: float
    mean: bytes
    error: float | None
    """The error of the mean; None for all peers but one, as all hold the same mean."""
    file_bytes: int = 0
    """What the sum kept in a file until it was over."""
    file_s: float = 0.0
    """How long threads wrote and read it, together."""

    @property
    def bytes_sent(self) -> int:
        """The bytes sent in all phases."""
        return sum(self.sent.values())


@dataclass(frozen=True)
class RoundCost:
    """The seconds of a round, from the start signal to the last peer's mean, and what each peer spent."""

    wall_s: float
    samples: Sequence[Sample]


@dataclass(frozen=True)
class Result:
    """The counted rounds of a cell."""

    cell: Cell
    rounds: Sequence[RoundCost]

    @property
    def wall_s(self) -> float:
        """The seconds of the median round."""
        return median(taken.wall_s for taken in self.rounds)

    @property
    def samples(self) -> list[Sample]:
        """The samples of every peer in every round."""
        return [sample for taken in self.rounds for sample in taken.samples]

    def sample_figures(self, figure: Callable[[Sample], float]) -> list[float]:
        """Return a figure of every sample, in the order of `samples`."""
        return [figure(sample) for sample in self.samples]

    @property
    def cpu_s(self) -> float:
        """The median CPU seconds over all peers and rounds."""
        return median(self.sample_figures(lambda sample: sample.cpu_s))

    @property
    def bytes_sent(self) -> float:
        """The median bytes of frames that a peer sends in a round."""
        return median(self.sample_figures(lambda sample: sample.bytes_sent))

    @property
    def peak_bytes(self) -> float:
        """The median peak of resident memory above rest, in bytes; a peer's own vector counts."""
        return median(self.sample_figures(lambda sample: sample.peak_bytes))

    @property
    def peak_vectors(self) -> float:
        """`peak_bytes` in multiples of a vector of 4 d bytes."""
        return self.peak_bytes / (WORD_BYTES * self.cell.d)

    @property
    def file_bytes(self) -> float:
        """The median bytes that a peer keeps in a file until a sum is over."""
        return median(self.sample_figures(lambda sample: sample.file_bytes))

    @property
    def aggregate_s(self) -> float:
        """The seconds from the GROUP message to the mean of the slowest peer in the median round."""
        return median(self._aggregate_s)

    @property
    def _aggregate_s(self) -> list[float]:
        return [max(sample.aggregate_s for sample in taken.samples) for taken in self.rounds]

    @property
    def max_error(self) -> float:
        """The error of the worst coordinate in the worst round."""
        return max(sample.error for sample in self.samples if sample.error is not None)

    def record(self) -> dict[str, object]:
        """Return the figures for the JSON file."""
        phases = sorted({phase for sample in self.samples for phase in sample.sent})
        return {
            **asdict(self.cell),
            **_spread("wall_s", [taken.wall_s for taken in self.rounds]),
            **_spread("aggregate_s", self._aggregate_s),
            **_spread("cpu_s", self.sample_figures(lambda sample: sample.cpu_s)),
            **_spread("bytes_sent", self.sample_figures(lambda sample: sample.bytes_sent)),
            "bytes_by_phase": {
                phase: median(sample.sent.get(phase, 0) for sample in self.samples) for phase in phases
            },
            **_spread("peak_bytes", self.sample_figures(lambda sample: sample.peak_bytes)),
            "peak_vectors": self.peak_vectors,
            "file_bytes": self.file_bytes,
            "file_s": median(self.sample_figures(lambda sample: sample.file_s)),
            "max_error": self.max_error,
            "max_error_of_bound": self.max_error / CLIP,
            "rounds": len(self.rounds),
        }


def _spread(name: str, values: Sequence[float]) -> dict[str, object]:
    return {name: median(values), f"{name}_min": min(values), f"{name}_max": max(values)}


@dataclass(frozen=True)
class Exponents:
    """How bytes and CPU time grow with n at a fixed d: cost ~ n^exponent."""

    protocol: str
    d: int
    bytes_sent: float
    cpu_s: float


def exponents(results: Sequence[Result]) -> list[Exponents]:
    """Return the exponents of each protocol and dimension that was measured with two group sizes or more."""
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
    """Return the least-squares exponent e of y ~ x^e for pairs (x, y); NaN if a y is not positive."""
    if min(y for _, y in points) <= 0:
        return math.nan
    logs = np.log(np.array(points, dtype=np.float64))
    x, y = (logs - logs.mean(axis=0)).T
    return float((x @ y) / (x @ x))
