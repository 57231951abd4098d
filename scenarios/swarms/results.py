"""The results of scenario `swarm`, and the figures that its claims, plots and tables share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from node.runtime.record.figures import Record
from node.storage.records import NO_TRAFFIC
from scenarios.study.cells import Fact
from scenarios.swarms.baselines import Baselines, PrivateCurve
from scenarios.swarms.nodes import PeerRun

Quantity = Literal["s", "bytes_sent", "bytes_received"]
BASE_RATE = "the best constant answer"


@dataclass(frozen=True)
class SwarmResults:
    """The peers' runs, their baselines, and the seconds from the first start to the last end.

    `replays`: the curves of the other privacy mechanisms; empty without privacy. `facts`: about the
    partition, the peers and their bytes, by names of scenarios.study.
    """

    rounds: int
    peers: tuple[PeerRun, ...]
    baselines: Baselines
    replays: tuple[PrivateCurve, ...]
    swarm_s: float
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """The headline metric of the common test rows (node.training.figures.headline)."""
        return self.baselines.pooled.metric

    @property
    def together(self) -> float:
        """The lowest of the peers' final values: every peer reaches at least this figure."""
        return min(peer.summary.value or 0.0 for peer in self.peers)

    @property
    def alone(self) -> float:
        """The mean of the final values of the peers training alone."""
        return mean([curve.final for curve in self.baselines.alone])

    @property
    def pooled(self) -> float:
        """The final value of the model trained on all data."""
        return self.baselines.pooled.final

    @property
    def guessing(self) -> float:
        """What the best constant answer reaches on the test rows, such as always the most frequent class."""
        return self.baselines.pooled.guessing


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean; 0 if there are no values."""
    return sum(values) / len(values) if values else 0.0


def phase_mean(rounds: Sequence[Record], phase: str, quantity: Quantity) -> float:
    """A phase's mean cost over `rounds`; a round that did not reach the phase counts as 0."""
    return mean([float(getattr(entry.phases.get(phase, NO_TRAFFIC), quantity)) for entry in rounds])


def entries_by_round(peers: Sequence[PeerRun]) -> dict[int, list[Record]]:
    """The entries of all peers about each round, by its number, in order."""
    found: dict[int, list[Record]] = {}
    for entry in (entry for peer in peers for entry in peer.rounds):
        found.setdefault(entry.round, []).append(entry)
    return dict(sorted(found.items()))


def lowest_by_round(peers: Sequence[PeerRun], figure: Callable[[Record], float | None]) -> dict[int, float]:
    """The lowest figure of all peers after each round, by its number; `figure`: that of a round, if any."""
    known = {
        number: [value for value in map(figure, entries) if value is not None]
        for number, entries in entries_by_round(peers).items()
    }
    return {number: min(values) for number, values in known.items() if values}
