"""The start of a node by itself, the start of one as a fork of the warm parent, and a run of the whole demo.

The two kinds of nodes start by turns. A node has started when it prints so in JSON: then it has its data, its
model and its listener. Its private memory is what it shares with no other process (Private_* of smaps_rollup,
proc(5)). The CPU time of the demo is that of all its processes, the fork-server's included.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.memory.residence import cpu_seconds
from benchmarks.spec import Figure, figure
from node.system.errors import UserError
from scenarios.frame.children import Children, last_line, warm_up

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
"""For child processes: they find this repository from any folder."""
NODE = ("--peers", "127.0.0.1:1,127.0.0.1:2", "--listen", "127.0.0.1:0", "--shard", "0/2", "--json")
DEMO = (sys.executable, "-m", "scenarios", "run", "swarm", "--out", "run")
START_S = 120.0
_POLL_S = 0.002
_MB = 1e6
_SUBREAPER = 36  # prctl(2), PR_SET_CHILD_SUBREAPER: an orphan below this process becomes its child


@dataclass(frozen=True)
class Started:
    """What a node took to start: seconds, CPU seconds, private memory in bytes."""

    wall_s: float
    cpu_s: float
    private_bytes: int


def figures(nodes: int, demos: int) -> Iterator[Figure]:
    """Run so many demos, then start so many nodes of each kind; yield the figures."""
    ran = [run_demo() for _ in range(demos)]
    yield figure("starting", "demo", "whole run", "s", [wall_s for wall_s, _ in ran])
    yield figure("starting", "demo", "whole run, processor", "s", [cpu_s for _, cpu_s in ran])
    with Children() as children:
        wall_s, cpu_s = start_warm_parent(children)
        yield figure("starting", "warm parent", "until it forks", "s", [wall_s])
        yield figure("starting", "warm parent", "until it forks, processor", "s", [cpu_s])
        pairs = [(start_alone(), start_forked(children)) for _ in range(nodes)]
    for case, taken in zip(
        ("node by itself", "node from the warm parent"), zip(*pairs, strict=True), strict=True
    ):
        yield figure("starting", case, "started", "s", [one.wall_s for one in taken])
        yield figure("starting", case, "started, processor", "s", [one.cpu_s for one in taken])
        yield figure("starting", case, "private memory", "MB", [one.private_bytes / _MB for one in taken])


def run_demo() -> tuple[float, float]:
    """Run the demo; return its seconds, and the CPU seconds of all its processes."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        begun, before_s = time.perf_counter(), ended_cpu_s()
        subprocess.run(DEMO, cwd=folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=True)
        wall_s = time.perf_counter() - begun
        with suppress(ChildProcessError):
            while True:
                os.wait()  # for processes that outlive the demo: its fork-server ends by itself
    return wall_s, ended_cpu_s() - before_s


def start_warm_parent(children: Children) -> tuple[float, float]:
    """Start the fork-server; return the seconds until its first child has ended, and its CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        warm_up()
        child = children.start(
            "first", Path(folder) / "log", "builtins:eval", "print(__import__('os').getppid()) or 0"
        )
        child.process.join(START_S)
        return time.perf_counter() - begun, cpu_seconds(int(last_line(child.log)))


def start_alone() -> Started:
    """Start a node as `python -m node`, then kill it. Raises UserError as `_wait_for_start`."""
    with tempfile.TemporaryDirectory() as folder:
        log, begun = Path(folder) / "log", time.perf_counter()
        with log.open("wb") as out:
            command = (sys.executable, "-m", "node", *NODE)
            process = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=out, stderr=out)
        try:
            return _wait_for_start(process.pid, log, begun, lambda: process.poll() is None)
        finally:
            process.kill()
            process.wait()


def start_forked(children: Children) -> Started:
    """Start a node in a fork of the warm parent, then kill it. Raises UserError as `_wait_for_start`."""
    with tempfile.TemporaryDirectory() as folder:
        log, begun = Path(folder) / "log", time.perf_counter()
        child = children.start("node", log, "scenarios.frame.children:command", "node", Path(folder), *NODE)
        process = child.process
        try:
            return _wait_for_start(process.pid or 0, log, begun, lambda: process.exitcode is None)
        finally:
            process.kill()
            process.join()


def _wait_for_start(pid: int, log: Path, begun: float, runs: Callable[[], bool]) -> Started:
    """Wait until the log says that the node has started. Raises UserError if it ends, or takes START_S."""
    while not (log.exists() and '"started"' in log.read_text("utf-8")):
        if not runs() or time.perf_counter() - begun > START_S:
            raise UserError(f"starting: a node ended, or took {START_S:g} s: {last_line(log)}")
        time.sleep(_POLL_S)
    return Started(time.perf_counter() - begun, cpu_seconds(pid), _private_bytes(pid))


def _private_bytes(pid: int) -> int:
    """Return the memory in bytes that a process shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def ended_cpu_s() -> float:
    """Return the CPU seconds, user and system, of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
