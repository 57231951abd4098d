"""Steps: how long a step with shared noise takes with real peers on this machine, in runs and one by one.

The rows are random and have the shape of MNIST's, so the benchmark needs no data. Two kinds of swarms run by
turns: in one a group takes the steps of a round as one run, in the other each step has a group of its own.
The CPU seconds of a peer and step, which include evaluation, stand beside the seconds: other work changes
them less.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.rounds import LEAST_PEERS, MOST_PEERS
from benchmarks.spec import Benchmark, Figure, check_counts, figure
from node.runtime.record.figures import Record
from node.system.errors import ConfigError
from node.task.load import load_task
from scenarios.data.dataset import FederatedDataset
from scenarios.swarms.history import PHASES
from scenarios.swarms.nodes import SwarmPlan, run_swarm
from scenarios.swarms.progress import PeerProgress

PEERS, ROWS, FEATURES, CLASSES = 10, 2000, 784, 10
"""`ROWS`: of each peer; a step samples about a fifth of them. `FEATURES` and `CLASSES` are MNIST's."""
TEST_ROWS = 200
BATCH = 4096
MANY_STEPS, QUICK_STEPS, EVERY = 60, 30, 10
TURNS, QUICK_TURNS = 3, 1
STEP_AT_MOST_S, FASTER_AT_LEAST = 0.25, 1.25
_SUM = PHASES[1:]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--peers", type=int, default=PEERS, help=f"how many peers (default {PEERS})")
    parser.add_argument("--turns", type=int, help=f"swarms of a kind (default {TURNS}; quick {QUICK_TURNS})")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Run both kinds of swarms by turns; yield figures over their peers and all rounds but the first."""
    turns = (QUICK_TURNS if arguments.quick else TURNS) if arguments.turns is None else arguments.turns
    if not LEAST_PEERS <= arguments.peers <= MOST_PEERS:
        raise ConfigError(f"--peers {arguments.peers}: allowed are {LEAST_PEERS} to {MOST_PEERS}")
    check_counts(arguments, "turns")
    steps = QUICK_STEPS if arguments.quick else MANY_STEPS
    return _figures(arguments.peers, steps, turns)


@dataclass(frozen=True)
class _SwarmCost:
    """What swarms of one kind took: the counted rounds of all peers, the CPU seconds of a peer and step."""

    rounds: list[Record] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)


def _figures(peers: int, steps: int, turns: int) -> Iterator[Figure]:
    together, one_by_one = _SwarmCost(), _SwarmCost()
    for turn in range(turns):
        _run_swarm(peers, steps, EVERY, turn, together)
        _run_swarm(peers, steps, 1, turn, one_by_one)
    yield from _case_figures(f"n={peers}, runs of {EVERY}", together, peers)
    yield from _case_figures(f"n={peers}, one by one", one_by_one, peers)
    sums = [float(np.median([_seconds(one, _SUM) for one in kind.rounds])) for kind in (one_by_one, together)]
    yield figure(
        "steps",
        f"n={peers}",
        "sum in a run, times as fast",
        "",
        [sums[0] / sums[1]],
        None,
        "",
        FASTER_AT_LEAST,
    )


class CpuWatch:
    """Notes the CPU time of the peers as rounds end: of all processes below this one."""

    def __init__(self, last_round: int) -> None:
        self._last_round = last_round
        self._seen: list[tuple[float, float]] = []
        """(mean round of the peers, CPU seconds of their processes so far)"""

    def peers(self, peers: Sequence[PeerProgress]) -> None:
        """Note the CPU time if every peer has ended its first round and none its last."""
        rounds = [peer.round for peer in peers]
        if min(rounds) >= 1 and max(rounds) < self._last_round:
            self._seen.append((float(np.mean(rounds)), _cpu_s_below(os.getpid())))

    def cpu_s_per_round(self) -> float | None:
        """Return the CPU seconds of all peers together for a round; None if too few rounds were seen."""
        if len(self._seen) < 2 or self._seen[-1][0] == self._seen[0][0]:
            return None
        (first, before_s), (last, after_s) = self._seen[0], self._seen[-1]
        return (after_s - before_s) / (last - first)


def _cpu_s_below(ancestor: int) -> float:
    """Return the CPU seconds so far of all running processes below `ancestor` (Linux: stat, proc(5))."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                text = (entry / "stat").read_text("ascii", "replace")
            except OSError:
                continue  # it has just ended
            fields = text.rpartition(")")[2].split()
            parents[int(entry.name)], ticks[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:13]))
    below = {ancestor}
    while more := {pid for pid, parent in parents.items() if parent in below and pid not in below}:
        below |= more
    return sum(ticks[pid] for pid in below - {ancestor}) / os.sysconf("SC_CLK_TCK")


def _run_swarm(peers: int, steps: int, every: int, seed: int, taken: _SwarmCost) -> None:
    """Run one swarm; add its CPU seconds to `taken`, and each peer's rounds with steps but the first."""
    settings = (
        f"model.args.sizes=[{FEATURES},64,{CLASSES}]",
        "privacy.mechanism=distributed-dp-sgd",
        "privacy.epsilon=8",
        f"aggregation.min_participants={peers}",
        f"train.steps={steps}",
        f"train.report_every={every}",
        f"train.expected_batch={BATCH}",
        f"train.expected_rows={peers * ROWS}",
        f"task.seed={seed}",
    )
    with tempfile.TemporaryDirectory() as folder:
        rows = tuple(_rows(seed, peer) for peer in range(peers))
        plan = SwarmPlan(load_task("digits", settings), peers, steps // every, Path(folder), rows)
        watch = CpuWatch(plan.rounds)
        taken.rounds.extend(
            one for run in run_swarm(plan, watch.peers) for one in run.rounds[1:] if one.steps
        )
        round_s = watch.cpu_s_per_round()
        if round_s is not None:
            taken.cpu_s.append(round_s / peers / every)


def _rows(seed: int, peer: int) -> FederatedDataset:
    """Return random training rows of one peer, and the random test rows that all peers have."""
    own, common = np.random.default_rng([seed, peer]), np.random.default_rng(seed)
    return FederatedDataset(
        train_x=own.random((ROWS, FEATURES), dtype=np.float32),
        train_y=own.integers(CLASSES, size=ROWS),
        test_x=common.random((TEST_ROWS, FEATURES), dtype=np.float32),
        test_y=common.integers(CLASSES, size=TEST_ROWS),
        clients=None,
        classes=CLASSES,
        description="random rows",
    )


def _seconds(one: Record, phases: tuple[str, ...]) -> float:
    """Return the seconds of these phases of a round, divided by its steps."""
    return sum(one.phases[phase].s for phase in phases if phase in one.phases) / one.steps


def _case_figures(case: str, taken: _SwarmCost, peers: int) -> Iterator[Figure]:
    is_goal, rounds = peers == PEERS and "runs" in case, taken.rounds
    step = [_seconds(one, PHASES) for one in rounds]
    yield figure("steps", case, "step", "s", step, STEP_AT_MOST_S if is_goal else None)
    for phase in PHASES:
        yield figure("steps", case, f"{phase} time", "s", [_seconds(one, (phase,)) for one in rounds])
    if taken.cpu_s:
        yield figure("steps", case, "CPU of a peer", "s", taken.cpu_s)
    sent = [one.bytes_sent / one.steps for one in rounds]
    words = FEATURES * 64 + 64 + 64 * CLASSES + CLASSES
    yield figure("steps", case, "bytes sent", "bytes", sent, 10 * words + 40_000 if is_goal else None)
    yield figure("steps", case, "failed steps", "steps", [sum(one.steps_failed for one in rounds)], 0)


STEPS = Benchmark(add_options, run)
