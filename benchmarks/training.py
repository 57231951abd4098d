"""Training: how long ten real peers take to learn MNIST with shared noise, from their start to their end.

Each peer is a process on this machine. The time counts all that a user waits for: imports, rows, groups, 200
steps, files, and an evaluation on 10,000 test rows by each peer in each round. MNIST comes from the data
folder of `python -m scenarios`.
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

from benchmarks.rounds import quiet
from benchmarks.spec import Benchmark, Figure, check_counts, figure
from node.task.load import load_task
from scenarios.data.dataset import FederatedDataset
from scenarios.data.partitions import iid
from scenarios.data.sources import VARIABLE, data_folder, load
from scenarios.swarms.history import PHASES
from scenarios.swarms.nodes import PeerRun, SwarmPlan, run_swarm

PEERS, HONEST, STEPS, QUICK_STEPS, EVERY = 10, 6, 200, 20, 10
"""`HONEST`: how many of the others each peer takes as honest. `EVERY`: the steps of a round."""
WHOLE_AT_MOST_S = 90.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--turns", type=int, default=1, help="swarms to train, one after another (default 1)")
    parser.add_argument("--data-dir", type=Path, help=f"where mnist/ lies; else ${VARIABLE}")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Train all swarms, then yield figures: how long a swarm took, and where the time went."""
    check_counts(arguments, "turns")
    rows = load("mnist", data_folder(arguments.data_dir, os.environ), np.random.default_rng(0))
    return _figures(rows, arguments.turns, arguments.quick)


def _train(rows: FederatedDataset, seed: int, is_quick: bool) -> tuple[float, tuple[PeerRun, ...]]:
    """Run one swarm; return the seconds from the start of its processes to the last end, and its reports."""
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
        peers = run_swarm(plan, quiet)
        return time.monotonic() - before_s, peers


def _figures(rows: FederatedDataset, turns: int, is_quick: bool) -> Iterator[Figure]:
    runs = [_train(rows, turn, is_quick) for turn in range(turns)]
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
