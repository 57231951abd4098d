"""Starting: the time of each command to its help text and to its first line; of nodes; of the demo.

The time to the help text is that of a whole process. Its median is divided by that of `python -m node`; all
commands take turns. Then each command runs until it prints a line, and is killed; most of its libraries would
load after that line. CPU seconds stand beside the seconds: other work on the machine changes them less. Last,
the demo runs and nodes start (benchmarks.started_nodes).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import started_nodes
from benchmarks.spec import Benchmark, Figure, check_counts, figure
from node.cli.commands import COMMANDS
from node.system.errors import UserError

REPEATS, QUICK_REPEATS = 9, 1
DEMOS = 3
TIMES_AT_MOST, FIRST_LINE_AT_MOST_S = 2.0, 1.0
FIRST_LINE_AT_MOST_CPU_S = 0.8
LEAST = "node"
PEERS = ("--peers", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3")
STARTED = {
    "node": (*PEERS, "--shard", "0/3", "--out", "run"),
    "tracker": ("--listen", "127.0.0.1:0"),
    "init": ("--data", "a.csv", "--out", "a.toml"),
    "check": ("digits", "--shard", "0/3"),
    "agree": ("digits", "--shard", "0/3", *PEERS),
    "predict": ("--model", "model.safetensors", "--data", "a.csv"),
    "doctor": ("--peers", "127.0.0.1:1"),
    "rejoin": ("--out", "."),
    "show": (".",),
    "report": (".",),
    "scenarios": ("run", "swarm", "--quick"),
    "bench": ("tls", "--quick"),
}
"""Commands that take seconds to load, and arguments with which each gets as far as its first line."""


@dataclass(frozen=True)
class CommandTime:
    """The seconds that a command took, and its CPU seconds."""

    wall_s: float
    cpu_s: float


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--repeats", type=int, help=f"timings of each command (default {REPEATS})")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Yield the time of each command's help, its ratio to a node's, and the time to the first line."""
    check_counts(arguments, "repeats")
    return _figures(arguments.repeats or (QUICK_REPEATS if arguments.quick else REPEATS))


def _figures(repeats: int) -> Iterator[Figure]:
    packages = {command.name: command.package for command in COMMANDS}
    taken: dict[str, list[CommandTime]] = {name: [] for name in packages}
    for _ in range(repeats):
        for name, package in packages.items():
            taken[name].append(_time_help(package))
    for name, values in taken.items():
        yield figure("starting", name, "--help", "s", [one.wall_s for one in values])
        yield figure("starting", name, "--help, processor", "s", [one.cpu_s for one in values])
    least = median(one.wall_s for one in taken[LEAST])
    for name, values in taken.items():
        if name != LEAST:
            times = [median(one.wall_s for one in values) / least]
            yield figure("starting", name, f"--help over {LEAST}'s", "x", times, at_most=TIMES_AT_MOST)
    for name, argv in STARTED.items():
        waits = [_time_first_line(packages[name], argv) for _ in range(repeats)]
        walls, cpus = [one.wall_s for one in waits], [one.cpu_s for one in waits]
        yield figure("starting", name, "first line", "s", walls, at_most=FIRST_LINE_AT_MOST_S)
        yield figure("starting", name, "first line, processor", "s", cpus, at_most=FIRST_LINE_AT_MOST_CPU_S)
    yield from started_nodes.figures(repeats, min(repeats, DEMOS))


def _time_help(package: str) -> CommandTime:
    begun, before = time.perf_counter(), started_nodes.ended_cpu_s()
    subprocess.run([sys.executable, "-m", package, "--help"], stdout=subprocess.DEVNULL, check=True)
    return CommandTime(time.perf_counter() - begun, started_nodes.ended_cpu_s() - before)


def _time_first_line(package: str, argv: Sequence[str]) -> CommandTime:
    """Run a command until it prints a line; return the time. Raises UserError for an error, or no line."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a.csv").write_text("x,y\n1,0\n2,1\n", "utf-8")
        begun, before = time.perf_counter(), started_nodes.ended_cpu_s()
        with subprocess.Popen(
            [sys.executable, "-m", package, *argv],
            cwd=folder,
            env=started_nodes.ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            line = process.stdout.readline() if process.stdout is not None else ""
            waited = time.perf_counter() - begun
            with suppress(ProcessLookupError):
                process.kill()
    if not line or line.startswith("error: "):
        raise UserError(f"starting: {package} said {line.strip() or 'nothing'}")
    return CommandTime(waited, started_nodes.ended_cpu_s() - before)


STARTING = Benchmark(add_options, run)
