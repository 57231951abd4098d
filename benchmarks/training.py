"""Training: how long ten real peers take to learn MNIST with shared noise, from their start to their end.

One process for each peer, on this machine; the settings are a task's defaults at epsilon 3. The time has
everything in it that a user waits for: imports, rows, groups, 200 steps, an evaluation of 10,000 test rows by
each peer in each round, and all files. MNIST comes from the data folder of `python -m scenarios`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.rounds import Quiet
from benchmarks.spec import Benchmark, Figure, figure
from node.errors import ConfigError
from node.task.load import load_task
from scenarios.data.dataset import Dataset
from scenarios.data.partitions import iid
from scenarios.data.sources import VARIABLE, data_folder, load
from scenarios.swarms.history import PHASES
from scenarios.swarms.nodes import PeerRun, SwarmPlan, run_swarm

PEERS, HONEST, STEPS, QUICK_STEPS, EVERY = 10, 6, 200, 20, 10
"""`HONEST` others of each peer are honest."""
WHOLE_AT_MOST_S = 90.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--turns", type=int, default=1, help="how often (default 1)")
    parser.add_argument("--data-dir", type=Path, help=f"where mnist/ lies; else ${VARIABLE}")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Train `--turns` swarms, one after another; yield how long each took, and where the time went."""
    if arguments.turns < 1:
        raise ConfigError(f"--turns {arguments.turns}: allowed are 1 and more")
    rows = load("mnist", data_folder(arguments.data_dir, os.environ), np.random.default_rng(0))
    return _figures([_train(rows, turn, arguments.quick) for turn in range(arguments.turns)], arguments.quick)


def _train(rows: Dataset, seed: int, is_quick: bool) -> tuple[float, tuple[PeerRun, ...]]:
    """The seconds from the start of a swarm's first process to the end of its last, and its reports."""
    steps = QUICK_STEPS if is_quick else STEPS
    settings = (
        "model.args.sizes=[784,64,10]",
        "privacy.mechanism=distributed-dp-sgd",
        "privacy.epsilon=3",
        f"privacy.honest={HONEST}",
        f"aggregation.min_participants={PEERS}",
        f"train.steps={steps}",
        f"train.report_every={EVERY}",
        f"train.expected_rows={len(rows.train_y)}",
        f"task.seed={seed}",
    )
    parts = iid(rows.train_y, PEERS, np.random.default_rng(seed))
    own = tuple(replace(rows, train_x=rows.train_x[part], train_y=rows.train_y[part]) for part in parts)
    with tempfile.TemporaryDirectory() as folder:
        plan = SwarmPlan(load_task("digits", settings), PEERS, steps // EVERY, Path(folder), own)
        before_s = time.monotonic()
        peers = run_swarm(plan, Quiet())
        return time.monotonic() - before_s, peers


def _figures(runs: list[tuple[float, tuple[PeerRun, ...]]], is_quick: bool) -> Iterator[Figure]:
    case = f"MNIST, n={PEERS}, {QUICK_STEPS if is_quick else STEPS} steps"
    peers = [peer for _, of_one in runs for peer in of_one]
    later = [one for peer in peers for one in peer.rounds[1:] if one.steps]
    yield figure("training", case, "whole", "s", [s for s, _ in runs], None if is_quick else WHOLE_AT_MOST_S)
    for name, phases in (("step", PHASES), *((f"{phase} time", (phase,)) for phase in PHASES)):
        spent = [sum(one.phases[p].s for p in phases if p in one.phases) / one.steps for one in later]
        yield figure("training", case, name, "s", spent)
    yield figure(
        "training", case, "failed steps", "steps", [sum(o.steps_failed for p in peers for o in p.rounds)], 0
    )
    yield figure("training", case, "accuracy", "", [p.summary.accuracy for p in peers if p.summary.accuracy])


TRAINING = Benchmark(add_options, run)
