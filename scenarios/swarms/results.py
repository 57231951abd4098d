"""The results of scenario `swarm`, and the figures that its claims, plots and tables share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scenarios.swarms.baselines import Baselines, PrivateCurve
from scenarios.swarms.history import PhaseCost, Round
from scenarios.swarms.nodes import PeerRun

Quantity = Literal["seconds", "bytes_sent", "bytes_received"]
NOTHING = PhaseCost(0.0, 0, 0)


@dataclass(frozen=True)
class SwarmResults:
    """The peers' runs, their baselines, and the seconds from the first start to the last end.

    `replays`: the curves of the other privacy mechanisms; empty without privacy.
    """

    rounds: int
    peers: tuple[PeerRun, ...]
    baselines: Baselines
    replays: tuple[PrivateCurve, ...]
    swarm_s: float

    @property
    def swarm_accuracy(self) -> float:
        """The lowest of the peers' final accuracies: every peer reaches at least this figure."""
        return min(peer.summary.accuracy or 0.0 for peer in self.peers)

    @property
    def alone_accuracy(self) -> float:
        """The mean of the final accuracies of the peers training alone."""
        return mean([curve.final for curve in self.baselines.alone])

    @property
    def pooled_accuracy(self) -> float:
        """The final accuracy of the model trained on all data."""
        return self.baselines.pooled.final

    @property
    def guessing(self) -> float:
        """The accuracy of always predicting the most frequent class of the test rows."""
        return self.baselines.pooled.guessing


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean; 0 if there are no values."""
    return sum(values) / len(values) if values else 0.0


def phase_mean(rounds: Sequence[Round], phase: str, quantity: Quantity) -> float:
    """A phase's mean cost over `rounds`; a round that did not reach the phase counts as 0."""
    return mean([float(getattr(entry.phases.get(phase, NOTHING), quantity)) for entry in rounds])


def lowest_by_round(peers: Sequence[PeerRun]) -> dict[int, float]:
    """The lowest accuracy of all peers after each round, by its number."""
    lowest: dict[int, float] = {}
    for entry in (entry for peer in peers for entry in peer.rounds):
        if entry.accuracy is not None:
            lowest[entry.round] = min(entry.accuracy, lowest.get(entry.round, 1.0))
    return dict(sorted(lowest.items()))
