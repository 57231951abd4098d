"""Real nodes on rows of a data set that the run hands them: their figures, and what their steps cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from node.runtime.record.figures import AGGREGATED, Record
from scenarios.clients.work import node_rows
from scenarios.data.dataset import FederatedDataset
from scenarios.frame.work import Say
from scenarios.study.cells import METRIC, Fact, Outcome, Room
from scenarios.swarms.cells import common_facts, each_round, lowest_figures, privacy_facts
from scenarios.swarms.dealt import (
    ACCURACY,
    FACTOR,
    FAILED,
    HONEST,
    STEP_BYTES,
    STEP_S,
    PeersCell,
    honest_facts,
    parts_of,
)
from scenarios.swarms.history import most_spent
from scenarios.swarms.nodes import PeerRun, SwarmPlan, run_swarm


def run_dealt(cell: PeersCell, room: Room, folder: Path, say: Say) -> Outcome:
    """Run the cell by real node processes on loopback, which write to `folder`. Raises UserError.

    A figure is the lowest of all peers in that round. Noise comes from the system's generator.
    """
    begun = time.perf_counter()
    rows = tuple(dealt_to(cell, cell.dataset(room)))
    plan = SwarmPlan(cell.task, cell.peers, cell.rounds, folder, rows)
    peers = run_swarm(plan, each_round(say))
    datasets = [node_rows(own, np.arange(len(own.train_y))) for own in rows]
    common, series = common_facts(plan, peers, datasets)
    ledger = most_spent([peer.summary.privacy for peer in peers])
    facts = {
        **privacy_facts(ledger, ""),
        **honest_facts(ledger),
        **node_facts(cell, peers),
        "base digests": len({peer.summary.base_digest for peer in peers}),
        **common,
        METRIC: cell.measure,
    }
    figures = lowest_figures(peers, cell.rounds, partial(recorded, measure=cell.measure))
    return Outcome(figures, facts, time.perf_counter() - begun, series)


def dealt_to(cell: PeersCell, dataset: FederatedDataset) -> list[FederatedDataset]:
    """Each peer's rows, with the common test rows."""
    return [dataset.only(part) for part in parts_of(dataset, cell.peers, cell.seed)]


def recorded(entry: Record, measure: str) -> float | None:
    """What a node recorded of a measure after a round."""
    return entry.accuracy if measure == ACCURACY else entry.metrics.get(measure)


def node_facts(cell: PeersCell, peers: Sequence[PeerRun]) -> dict[str, Fact]:
    """What steps of real nodes cost; {} where a round is one sum.

    Seconds: the median over rounds and peers of a round's phases over its steps. Bytes: those that a peer
    sent, likewise.
    """
    plan = cell.task.step_plan
    if plan is None:
        return {}
    whole = [
        (entry, entry.steps)
        for peer in peers
        for entry in peer.rounds[1:]
        if entry.steps and entry.outcome == AGGREGATED
    ]
    seconds = [sum(cost.s for cost in entry.phases.values()) / steps for entry, steps in whole]
    sent = [entry.bytes_sent / steps for entry, steps in whole]
    return {
        HONEST: plan.honest,
        FACTOR: cell.peers / (plan.honest + 1),
        STEP_S: float(np.median(seconds)) if seconds else None,
        STEP_BYTES: float(np.median(sent)) if sent else None,
        FAILED: max(entry.steps_failed for peer in peers for entry in peer.rounds),
    }
