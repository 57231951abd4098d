"""Runs the tests again and again on a busy machine, and writes down those that fail (`make flakes`).

The tests of `make test` run beside a few busy loops, and all those with real processes or a browser beside
more; these run again while their processes stand still for a moment in turn, each time with another seed.
The file grows after each run; one of the same options and versions is continued. Each run names its commit.

What comes after `--` are options of pytest.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

from benchmarks.machine import machine, versions
from tests.pauses import pauses

ROOT = Path(__file__).parents[1]
LOOP = (sys.executable, "-c", "while True: pass")


@dataclass(frozen=True)
class Series:
    """The same tests, run several times beside busy loops, or with processes that stand still."""

    name: str
    words: tuple[str, ...]
    """What the command line of pytest says of them."""
    runs: int
    loops: int
    still: int = 0
    """How many processes stand still at a time."""


@dataclass(frozen=True)
class Run:
    """What one pytest came to; `failed` has the names of the tests, errors of fixtures included."""

    commit: str
    series: str
    loops: int
    status: int
    seconds: float
    passed: int
    skipped: int
    failed: tuple[str, ...]


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keeps `count` processes busy in the context."""
    loops = [subprocess.Popen(LOOP) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def outcomes(junit: Path) -> dict[str, str]:
    """Returns how each test of a JUnit file ended: passed, skipped or failed."""
    found = dict[str, str]()
    for case in ElementTree.parse(junit).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        found[name] = "failed" if kinds - {"skipped"} else "skipped" if kinds else "passed"
    return found


def commit() -> str:
    """Returns the short name of the tree's commit, with "-dirty" after it if files differ; "" without git."""
    told = ("git", "describe", "--always", "--dirty", "--exclude=*")
    return subprocess.run(told, cwd=ROOT, check=False, capture_output=True, text=True).stdout.strip()


def run(series: Series, options: Sequence[str], number: int) -> Run:
    """Runs the tests of a series for the `number`-th time."""
    begun = time.monotonic()
    with TemporaryDirectory() as folder, busy(series.loops), pauses(series.still, seed=1000 * number):
        junit = Path(folder, "junit.xml")
        command = (sys.executable, "-m", "pytest", f"--junitxml={junit}", *options, *series.words)
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        ended = outcomes(junit) if junit.exists() else {}
    counts = Counter(ended.values())
    failed = tuple(sorted(name for name, how in ended.items() if how == "failed"))
    seconds = round(time.monotonic() - begun, 1)
    return Run(
        commit(), series.name, series.loops, status, seconds, counts["passed"], counts["skipped"], failed
    )


def earlier(file: Path, ran_on: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the runs of the file with the same options of pytest and the same versions."""
    if not file.exists():
        return []
    found = json.loads(file.read_text("utf-8"))
    same = all(found[name] == ran_on[name] for name in ("options", "versions"))
    return found["runs"] if same else []


def main(argv: Sequence[str]) -> int:
    """Runs the command line; the exit status is 1 if a test failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.flakes", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="runs of what `make test` runs")
    parser.add_argument("--loops", type=int, default=2, help="busy loops beside them")
    parser.add_argument("--process-runs", type=int, default=10, help="runs of tests/e2e and tests/browser")
    parser.add_argument("--process-loops", type=int, default=4, help="busy loops beside them")
    parser.add_argument("--pause-runs", type=int, default=2, help="runs of these with pauses")
    parser.add_argument("--json", type=Path, default=ROOT / "docs/results/flakes.json", metavar="FILE")
    own, options = argv, list[str]()
    if "--" in argv:
        at = argv.index("--")
        own, options = argv[:at], list(argv[at + 1 :])
    chosen = parser.parse_args(own)
    processes = ("--full", "tests/e2e", "tests/browser")
    all_series = (
        Series("all", (), chosen.runs, chosen.loops),
        Series("processes", processes, chosen.process_runs, chosen.process_loops),
        Series("pauses", processes, chosen.pause_runs, 0, still=3),
    )
    ran_on = {"options": shlex.join(options), "machine": machine(), "versions": versions()}
    runs = earlier(chosen.json, ran_on)
    for series in all_series:
        done = sum((one["series"], one["loops"]) == (series.name, series.loops) for one in runs)
        for number in range(done, series.runs):
            print(f"\n==== {series.name}, run {number + 1} of {series.runs}", flush=True)
            runs.append(asdict(run(series, options, number)))
            chosen.json.write_text(json.dumps({**ran_on, "runs": runs}, indent=1) + "\n", "utf-8")
    counts = Counter(name for done in runs for name in done["failed"])
    for name, times in counts.most_common():
        print(f"{times:3} of {len(runs)} {name}")
    print(f"{len(runs)} runs, {sum(done['status'] == 0 for done in runs)} without a failure")
    return int(any(done["status"] for done in runs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
