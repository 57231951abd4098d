"""What a node costs that starts by itself, one that starts in a fork of the warm parent, and the whole demo.

Both nodes take turns. A node has started when its line of JSON says so: then its data, its model and its
listener are there. Its private memory is what it shares with no other process (Private_* of proc(5),
smaps_rollup). The demo's processor time is that of all its processes, the fork-server included.
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

from benchmarks.spec import Figure, figure
from node.errors import UserError
from scenarios.frame.children import Children, last_line, warm_up

ROOT = Path(__file__).resolve().parents[1]
NODE = ("--peers", "127.0.0.1:1,127.0.0.1:2", "--listen", "127.0.0.1:0", "--shard", "0/2", "--json")
DEMO = (sys.executable, "-m", "scenarios", "run", "swarm", "--out", "run")
START_S = 120.0
_POLL_S = 0.002
_MB = 1e6
_SUBREAPER = 36  # prctl(2), PR_SET_CHILD_SUBREAPER: who has lost his parent becomes our child


@dataclass(frozen=True)
class Started:
    """What a node has taken once it has started: seconds, processor's seconds, private memory in bytes."""

    wall_s: float
    cpu_s: float
    private: int


def figures(nodes: int, demos: int) -> Iterator[Figure]:
    """Yield the figures of that many nodes of either kind, and of that many demos."""
    ran = [demo() for _ in range(demos)]
    yield figure("starting", "demo", "whole run", "s", [wall_s for wall_s, _ in ran])
    yield figure("starting", "demo", "whole run, processor", "s", [cpu_s for _, cpu_s in ran])
    with Children() as children:
        wall_s, cpu_s = warm_parent(children)
        yield figure("starting", "warm parent", "until it forks", "s", [wall_s])
        yield figure("starting", "warm parent", "until it forks, processor", "s", [cpu_s])
        pairs = [(by_itself(), forked(children)) for _ in range(nodes)]
    for case, taken in zip(
        ("node by itself", "node from the warm parent"), zip(*pairs, strict=True), strict=True
    ):
        yield figure("starting", case, "started", "s", [one.wall_s for one in taken])
        yield figure("starting", case, "started, processor", "s", [one.cpu_s for one in taken])
        yield figure("starting", case, "private memory", "MB", [one.private / _MB for one in taken])


def demo() -> tuple[float, float]:
    """Run the demo; return its seconds, and the processor's seconds of all its processes."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        begun, before_s = time.perf_counter(), _ended_cpu_s()
        subprocess.run(DEMO, cwd=folder, env=_environment(), stdout=subprocess.DEVNULL, check=True)
        wall_s = time.perf_counter() - begun
        with suppress(ChildProcessError):
            while True:
                os.wait()  # for what outlives it: its fork-server ends by itself
    return wall_s, _ended_cpu_s() - before_s


def warm_parent(children: Children) -> tuple[float, float]:
    """Start the fork-server; return the seconds until its first child runs, and its processor's seconds."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        warm_up()
        child = children.start(
            "first", Path(folder) / "log", "builtins:eval", "print(__import__('os').getppid()) or 0"
        )
        child.process.join(START_S)
        return time.perf_counter() - begun, _cpu_s(int(last_line(child.log)))


def by_itself() -> Started:
    """Start a node as `python -m node`."""
    with tempfile.TemporaryDirectory() as folder:
        log, begun = Path(folder) / "log", time.perf_counter()
        with log.open("wb") as out:
            command = (sys.executable, "-m", "node", *NODE)
            process = subprocess.Popen(command, cwd=folder, env=_environment(), stdout=out, stderr=out)
        try:
            return _when_started(process.pid, log, begun, lambda: process.poll() is None)
        finally:
            process.kill()
            process.wait()


def forked(children: Children) -> Started:
    """Start a node in a fork of the warm parent."""
    with tempfile.TemporaryDirectory() as folder:
        log, begun = Path(folder) / "log", time.perf_counter()
        child = children.start("node", log, "scenarios.frame.children:command", "node", Path(folder), *NODE)
        process = child.process
        try:
            return _when_started(process.pid or 0, log, begun, lambda: process.exitcode is None)
        finally:
            process.kill()
            process.join()


def _when_started(pid: int, log: Path, begun: float, runs: Callable[[], bool]) -> Started:
    while not (log.exists() and '"started"' in log.read_text("utf-8")):
        if not runs() or time.perf_counter() - begun > START_S:
            raise UserError(f"starting: a node ended, or took {START_S:g} s: {last_line(log)}")
        time.sleep(_POLL_S)
    return Started(time.perf_counter() - begun, _cpu_s(pid), _private(pid))


def _cpu_s(pid: int) -> float:
    """The processor's seconds, user and system, of a process so far (proc(5), stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _private(pid: int) -> int:
    """The memory in bytes that a process shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def _ended_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}
