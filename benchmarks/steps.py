"""Steps: how long a step with shared noise takes with real peers on this machine, in runs and one by one.

The rows are random and have the shape of MNIST's, so the benchmark needs no data. By turns, the peers take a
round's steps in one run, and each step in a group of its own.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.rounds import LEAST_PEERS, MOST_PEERS, Quiet
from benchmarks.spec import Benchmark, Figure, figure
from node.errors import ConfigError
from node.task.load import load_task
from scenarios.data.dataset import Dataset
from scenarios.swarms.history import PHASES, Round
from scenarios.swarms.nodes import PeerRun, SwarmPlan, run_swarm

PEERS, ROWS, FEATURES, CLASSES = 10, 2000, 784, 10
"""Rows of each peer, of which a step samples a fifth or so; features and classes are those of MNIST."""
TEST_ROWS = 200
BATCH = 4096
MANY_STEPS, QUICK_STEPS, EVERY = 60, 30, 10
TURNS, QUICK_TURNS = 3, 1
STEP_AT_MOST_S, FASTER_AT_LEAST = 0.25, 1.25
_SUM = PHASES[1:]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--peers", type=int, default=PEERS, help=f"how many peers (default {PEERS})")
    parser.add_argument("--turns", type=int, help=f"how often (default {TURNS}; quick {QUICK_TURNS})")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Run swarms by turns; yield medians over their peers, and over rounds without the first."""
    turns = (QUICK_TURNS if arguments.quick else TURNS) if arguments.turns is None else arguments.turns
    if not LEAST_PEERS <= arguments.peers <= MOST_PEERS:
        raise ConfigError(f"--peers {arguments.peers}: allowed are {LEAST_PEERS} to {MOST_PEERS}")
    if turns < 1:
        raise ConfigError(f"--turns {turns}: allowed are 1 and more")
    steps = QUICK_STEPS if arguments.quick else MANY_STEPS
    return _all(arguments.peers, steps, turns)


def _all(peers: int, steps: int, turns: int) -> Iterator[Figure]:
    together: list[Round] = []
    one_by_one: list[Round] = []
    for turn in range(turns):
        together += _rounds(peers, steps, EVERY, turn)
        one_by_one += _rounds(peers, steps, 1, turn)
    yield from _figures(f"n={peers}, runs of {EVERY}", together, peers)
    yield from _figures(f"n={peers}, one by one", one_by_one, peers)
    sums = [float(np.median([_seconds(one, _SUM) for one in rounds])) for rounds in (one_by_one, together)]
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


def _rounds(peers: int, steps: int, every: int, seed: int) -> list[Round]:
    """Run one swarm; return all its peers' rounds but each one's first, and those that had no step."""
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
        return [one for run in run_swarm(plan, Quiet()) for one in _counted(run)]


def _rows(seed: int, peer: int) -> Dataset:
    """Random rows of one peer, and the common test rows."""
    own, common = np.random.default_rng([seed, peer]), np.random.default_rng(seed)
    return Dataset(
        train_x=own.random((ROWS, FEATURES), dtype=np.float32),
        train_y=own.integers(CLASSES, size=ROWS),
        test_x=common.random((TEST_ROWS, FEATURES), dtype=np.float32),
        test_y=common.integers(CLASSES, size=TEST_ROWS),
        clients=None,
        classes=CLASSES,
        description="random rows",
    )


def _counted(run: PeerRun) -> list[Round]:
    return [one for one in run.rounds[1:] if one.steps]


def _seconds(one: Round, phases: tuple[str, ...]) -> float:
    """The seconds of these phases of a round, for each of its steps."""
    return sum(one.phases[phase].seconds for phase in phases if phase in one.phases) / one.steps


def _figures(case: str, rounds: list[Round], peers: int) -> Iterator[Figure]:
    is_goal = peers == PEERS and "runs" in case
    step = [_seconds(one, PHASES) for one in rounds]
    yield figure("steps", case, "step", "s", step, STEP_AT_MOST_S if is_goal else None)
    for phase in PHASES:
        yield figure("steps", case, f"{phase} time", "s", [_seconds(one, (phase,)) for one in rounds])
    sent = [one.bytes_sent / one.steps for one in rounds]
    words = FEATURES * 64 + 64 + 64 * CLASSES + CLASSES
    yield figure("steps", case, "bytes sent", "bytes", sent, 10 * words + 40_000 if is_goal else None)
    yield figure("steps", case, "failed steps", "steps", [sum(one.steps_failed for one in rounds)], 0)


STEPS = Benchmark(add_options, run)
