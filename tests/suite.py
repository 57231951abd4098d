"""Runs all tests in parts: each part is one pytest, with as many at once as there are cores (`make test`).

Tracing for coverage makes tests 2.6 times slower. So only one part is traced, the one that reaches every
branch of protocol/ and mechanisms/, and it leaves out most simulations. Real processes have real deadlines,
and are killed at moments that others must not outrun: they run first, and nothing runs next to them.

With arguments it runs a single pytest with these arguments.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1]
BRANCHES = tuple(f"tests/simulation/test_masked_{name}.py" for name in ("lies", "framing", "once"))
"""Simulations that reach branches which no other test does."""
TRACED = (
    "tests/unit/protocol",
    "tests/unit/mechanisms",
    "tests/unit/test_former_paths.py",
    "tests/property",
    "tests/vectors",
    "tests/statistical",
)


@dataclass(frozen=True)
class Part:
    """The tests that one pytest runs: those below `paths` but not below `left_out`."""

    name: str
    paths: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def holds(self, file: str) -> bool:
        """Returns whether the part contains a test file, named from the root."""
        return _is_below(file, self.paths) and not _is_below(file, self.left_out)

    @property
    def command(self) -> list[str]:
        """Returns the command that runs the part."""
        colour = "--color=yes" if sys.stdout.isatty() else "--color=no"
        own_cache = f"cache_dir=.pytest_cache/{self.name}"
        ignored = [f"--ignore={path}" for path in self.left_out]
        return [
            sys.executable,
            "-m",
            "pytest",
            *self.options,
            colour,
            "-o",
            own_cache,
            "--durations=20",
            *ignored,
            *self.paths,
        ]


def _is_below(file: str, paths: Sequence[str]) -> bool:
    return any(Path(file).is_relative_to(path) for path in paths)


PARTS = (
    Part("processes", ("tests/e2e",)),
    Part("simulations", ("tests/simulation",), BRANCHES),
    Part("coverage", (*TRACED, *BRANCHES), options=("--cov",)),
    Part("units", ("tests/unit",), TRACED),
    Part("browser", ("tests/browser",)),
    Part("models", ("tests/models",)),
)
"""The first one runs alone; then the longest ones come first."""


@dataclass(frozen=True)
class Ended:
    """A part that has run; `output` is all that its pytest printed."""

    part: Part
    status: int
    output: str

    @property
    def summary(self) -> str:
        """The last line of its pytest."""
        return self.output.rstrip().rpartition("\n")[2].strip("= ")


def run(part: Part) -> Ended:
    """Runs a part's pytest to its end."""
    ended = subprocess.run(
        part.command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return Ended(part, ended.returncode, ended.stdout)


def closing(ended: Sequence[Ended], seconds: float) -> str:
    """Returns the counts of all parts in one line, as pytest writes it."""
    counts: Counter[str] = Counter()
    for one in ended:
        for number, kind in re.findall(r"(\d+) ([a-z]+)", one.summary.rpartition(" in ")[0]):
            counts[kind] += int(number)
    failed = [one.part.name for one in ended if one.status]
    told = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    return f"{told} in {seconds:.0f}s" + (f"; NOT WELL: {', '.join(failed)}" if failed else "")


def _as_they_end(pool: ThreadPoolExecutor, parts: Sequence[Part]) -> Iterator[Ended]:
    for one in as_completed([pool.submit(run, part) for part in parts]):
        yield one.result()


def main() -> int:
    """Runs all parts; the exit status is 0 if theirs are."""
    begun, ended = time.monotonic(), list[Ended]()
    alone, *others = PARTS
    at_once = min(len(others), os.cpu_count() or 1)
    names = ", ".join(part.name for part in others)
    print(f"parts, each shown when it ends: {alone.name}, then {at_once} at once: {names}", flush=True)
    with ThreadPoolExecutor(at_once) as pool:
        try:
            for one in chain((run(alone),), _as_they_end(pool, others)):
                ended.append(one)
                print(f"\n==== {one.part.name}\n{one.output}", flush=True)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            return 130
    print()
    for one in sorted(ended, key=lambda one: PARTS.index(one.part)):
        print(f"{one.part.name:12} {'ok' if one.status == 0 else f'status {one.status}':10} {one.summary}")
    print(closing(ended, time.monotonic() - begun))
    return int(any(one.status for one in ended))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.execv(sys.executable, [sys.executable, "-m", "pytest", *sys.argv[1:]])
    sys.exit(main())
