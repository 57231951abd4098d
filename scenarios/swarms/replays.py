"""The same swarm under the other privacy mechanisms, without a network: training, offers, and their mean.

It is what the real peers' curve is compared with (scenarios.swarms.replay).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from node.task.sections import Task
from scenarios.swarms.baselines import work
from scenarios.swarms.nodes import SwarmPlan
from scenarios.swarms.progress import Display

COMPARED = ("dp-sgd", "aldp", "ldp")


@dataclass(frozen=True)
class Replay:
    """One mechanism over all parts; path: where the curve goes."""

    task: Task
    peers: int
    rounds: int
    path: Path

    @property
    def name(self) -> str:
        """The mechanism."""
        return self.task.privacy.mechanism

    @property
    def log(self) -> Path:
        """Where its process says a line a round."""
        return self.path.with_suffix(".log")

    @property
    def worker(self) -> str:
        """What runs it in a process of its own."""
        return "scenarios.engines.replay_worker:run_replay"


@dataclass(frozen=True)
class PrivateCurve:
    """After each round: the base's accuracy on the common test split, and the largest epsilon of any peer."""

    mechanism: str
    accuracy: tuple[float, ...]
    epsilon: tuple[float, ...]
    privacy: dict[str, object]
    """The ledger of the peer that has spent most, as in summary.json."""

    @property
    def final(self) -> float:
        """The accuracy after the last round."""
        return self.accuracy[-1]


def run_replays(plan: SwarmPlan, display: Display) -> tuple[PrivateCurve, ...]:
    """The curves of the mechanisms that the real peers did not run; none where no privacy is on."""
    queue = replays(plan)
    work([job for job in queue if not job.path.exists()], display)
    return tuple(_read(job.path) for job in queue)


def replays(plan: SwarmPlan) -> tuple[Replay, ...]:
    """One job for each mechanism to compare with."""
    chosen = plan.task.privacy.mechanism
    if chosen == "none":
        return ()
    return tuple(
        Replay(_with(plan.task, name), plan.peers, plan.rounds, plan.folder / "baselines" / f"{name}.json")
        for name in COMPARED
        if name != chosen
    )


def _with(task: Task, mechanism: str) -> Task:
    """The task under another mechanism, calibrated exactly, without a gate, which not all of them may have.

    The rest stays as it is.
    """
    privacy = replace(task.privacy, mechanism=mechanism, calibration="exact")
    return replace(task, privacy=privacy, aggregation=replace(task.aggregation, loss_gate=None))


def _read(path: Path) -> PrivateCurve:
    fields = json.loads(path.read_text())
    return PrivateCurve(
        fields["mechanism"], tuple(fields["accuracy"]), tuple(fields["epsilon"]), fields["privacy"]
    )
