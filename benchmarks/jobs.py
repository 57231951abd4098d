"""Jobs: models of tables and statistics by exact sums, with five real peers on this machine.

Each peer is a process that a user's command starts, with a file of its own. "whole" is from the start of the
processes to the last end, imports included; "learning" is a node's own account of its run. Adult comes from
the data folder of `python -m scenarios`; the rows of the statistics are made.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.spec import Benchmark, Figure, check_counts, figure
from node.data.partition import even
from node.system.errors import UserError
from scenarios.data.sources import VARIABLE, data_folder
from scenarios.data.tables import Table, table
from scenarios.frame.children import last_line
from scenarios.swarms.nodes import endpoints_of, listeners
from scenarios.tables.proposal import propose_task
from scenarios.tables.sites import TARGET, write

PEERS = 5
ROWS, QUICK_ROWS = 50_000, 5_000
NUMBERS, WORDS = 14, 3
"""Columns of the statistics, beside arm, days and death: 20 in all."""
LEARNING_AT_MOST_S = {"additive": 15.0, "trees": 60.0}
STATISTICS_AT_MOST_S, STATISTICS_AT_MOST_BYTES, FOLLOWING_AT_MOST_S = 30.0, 2e6, 0.3
CASES = (*LEARNING_AT_MOST_S, "stats", "following")
_SECTION = """
[statistics]
by = "arm"
tables = [["c0", "died"]]
models = [{ formula = "died ~ x0 + x1 + x2 + c0", family = "binomial" }]
survival = [{ time = "days", event = "died", by = "arm", grid = 1, cox = ["x0", "x1", "x2"] }]
"""


@dataclass(frozen=True)
class Ended:
    """A peer's summary.json, and the CPU seconds of its process."""

    summary: Mapping[str, Any]
    cpu_s: float


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--only", choices=CASES, help="one case (default: all)")
    parser.add_argument("--turns", type=int, default=1, help="swarms of each case, one by one (default 1)")
    parser.add_argument("--data-dir", type=Path, help=f"where adult/ lies; else ${VARIABLE}")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Run the swarms of each case; yield their figures."""
    check_counts(arguments, "turns")
    return _figures(arguments)


def _figures(arguments: argparse.Namespace) -> Iterator[Figure]:
    chosen = CASES if arguments.only is None else (arguments.only,)
    rows = QUICK_ROWS if arguments.quick else None
    for case in chosen:
        if case == "following":
            yield following_figure()
        elif case == "stats":
            swarms = [_statistics(rows or ROWS) for _ in range(arguments.turns)]
            yield from _of_swarms(f"stats, {rows or ROWS} rows", swarms, STATISTICS_AT_MOST_S, "whole")
        else:
            whole = table("adult", data_folder(arguments.data_dir, os.environ))
            used = whole.at(np.arange(len(whole))[:rows])
            swarms = [_learn(case, used, turn) for turn in range(arguments.turns)]
            yield from _of_swarms(f"{case}, Adult", swarms, LEARNING_AT_MOST_S[case], "learning")


Swarm = tuple[float, Sequence[Ended]]
"""Seconds from the first start to the last end, and all peers."""


def _of_swarms(case: str, swarms: Sequence[Swarm], at_most_s: float, judged: str) -> Iterator[Figure]:
    case = f"{case}, n={PEERS}"
    peers = [peer for _, ended in swarms for peer in ended]
    told = partial(figure, "jobs", case)
    yield told("whole", "s", [s for s, _ in swarms], at_most_s if judged == "whole" else None)
    learning = [max(peer.summary["seconds"] for peer in ended) for _, ended in swarms]
    yield told("learning", "s", learning, at_most_s if judged == "learning" else None)
    yield told("processor, a peer", "s", [peer.cpu_s for peer in peers])
    sent = [peer.summary["bytes_sent"] for peer in peers]
    yield told("bytes sent", "bytes", sent, STATISTICS_AT_MOST_BYTES if judged == "whole" else None)
    yield told("sums", "sums", [peer.summary["generation"] for peer in peers])
    if judged == "learning":
        yield told(peers[0].summary["metric"], "", [peer.summary["value"] for peer in peers])
    models = [len({peer.summary["base_digest"] for peer in ended}) for _, ended in swarms]
    yield told("different ends", "models", models, 1)


def _learn(kind: str, rows: Table, seed: int) -> Swarm:
    with tempfile.TemporaryDirectory() as named:
        folder = Path(named)
        files = _deal(folder, rows, seed)
        asked = ("--target", TARGET, "--peers", str(PEERS), "--privacy", "none", "--model", kind)
        task = propose_task(files[0], folder / "task.toml", *asked)
        return run_peers(folder, files, ("node", "--task", str(task), "--alone", "no"))


def _statistics(count: int) -> Swarm:
    with tempfile.TemporaryDirectory() as named:
        folder = Path(named)
        files = _deal(folder, made_rows(count), 0)
        asked = ("--target", TARGET, "--peers", str(PEERS), "--privacy", "none", "--model", "linear")
        task = propose_task(files[0], folder / "task.toml", *asked, "--agree")
        task.write_text(task.read_text("utf-8") + _SECTION, "utf-8")
        return run_peers(folder, files, ("node.stats", str(task)), "--write")


def made_rows(count: int) -> Table:
    """Return rows with a binary target, days until an event, arms, words and numbers that bear on both."""
    rng = np.random.default_rng(47)
    x = rng.normal(size=(count, NUMBERS)).round(4)
    died = rng.random(count) < 1 / (1 + np.exp(-x[:, 0] + 0.5 * x[:, 1] + 1))
    days = np.ceil(rng.exponential(200 * np.exp(-0.3 * x[:, 2]))).clip(1, 1000)
    words = {
        f"c{place}": rng.choice(np.array(["a", "b", "c", "d"][: place + 2]), count) for place in range(WORDS)
    }
    arm = rng.choice(np.array(["new", "old"]), count)
    return Table(
        np.where(x[:, 3] > 0, "yes", "no"),
        {
            "arm": arm,
            "days": days,
            "died": died.astype(np.float64),
            **words,
            **{f"x{place}": column for place, column in enumerate(x.T)},
        },
    )


def _deal(folder: Path, rows: Table, seed: int) -> list[Path]:
    parts = even(len(rows), PEERS, np.random.default_rng(seed))
    return [write(folder, f"site{peer}", "csv", rows.at(part)) for peer, part in enumerate(parts)]


def run_peers(folder: Path, files: Sequence[Path], command: Sequence[str], writes: str = "") -> Swarm:
    """Run a command at each peer. Raises UserError if one fails."""
    with listeners(len(files)) as sockets:
        places = endpoints_of(sockets)
    begun = time.monotonic()
    with ExitStack() as stack:
        processes = []
        for peer, (file, place) in enumerate(zip(files, places, strict=True)):
            log = stack.enter_context((folder / f"log{peer}").open("wb"))
            where = ("--data", str(file), "--listen", place, "--peers", ",".join(places))
            own = ("--out", str(folder / f"out{peer}"), "--wait", "120")
            written = (writes, str(folder / f"report{peer}.html")) if writes else ()
            argv = (sys.executable, "-m", *command, *where, *own, *written)
            processes.append(subprocess.Popen(argv, stdout=log, stderr=log))
        ended = [os.wait4(process.pid, 0) for process in processes]
    whole_s = time.monotonic() - begun
    for peer, (_, status, _) in enumerate(ended):
        if status:
            raise UserError(f"jobs: peer {peer} failed: {last_line(folder / f'log{peer}')}")
    summaries = [
        json.loads((folder / f"out{peer}" / "summary.json").read_text("utf-8")) for peer in range(PEERS)
    ]
    used = [use.ru_utime + use.ru_stime for _, _, use in ended]
    return whole_s, [Ended(summary, cpu_s) for summary, cpu_s in zip(summaries, used, strict=True)]


def following_figure() -> Figure:
    """Return the CPU seconds in which a node makes a base of a Newton sum for 300 values."""
    import torch  # noqa: PLC0415 - slow to load

    from node.jobs.additive.job import AdditiveJob  # noqa: PLC0415 - loads torch
    from node.jobs.additive.state import Plan  # noqa: PLC0415 - loads torch

    rng = np.random.default_rng(3)
    x = torch.from_numpy(rng.uniform(-2, 2, (4000, 10)).astype(np.float32))
    y = (rng.random(4000) < 1 / (1 + np.exp(-x.sum(1).numpy()))).astype(np.int64)
    job = AdditiveJob(Plan((("number", 1),) * 10, 30, ((-2.0, 2.0),) * 10, (1.0, 1.0)), x, y)
    base, generation, taken = job.initial(), 0, []
    while not job.is_over(base):
        words = job.contribution(base, generation).words
        begun = time.process_time()
        base = job.following(base, generation, words, ())
        if generation >= job.count_sums:
            taken.append(time.process_time() - begun)
        generation += 1
    return figure("jobs", "following, p=300", "processor", "s", taken, FOLLOWING_AT_MOST_S)


JOBS = Benchmark(add_options, run)
