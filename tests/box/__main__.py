"""Replays seeds of the box: `python -m tests.box 4711`, or `python -m tests.box 0 20000` for a range.

With `--log` a range goes on where it was left: the file holds the seeds that are done, and why those that
failed did. The trace of a seed that fails is printed; `--trace` prints it in any case.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from tests.box.replay import Done, run, run_all


def main() -> int:
    """Runs the command; the exit status is 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.box", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int, nargs="?", help="run first, first + 1, ... below this")
    parser.add_argument("--log", type=Path, help="a file of the seeds that are done, which is continued")
    parser.add_argument("--trace", action="store_true", help="print the trace of a single seed")
    for kind, what in (("lying", "one node lies"), ("relays", "outages of relays and of ways to them")):
        parser.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind, help=what)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; usually one a core")
    parser.set_defaults(kind="faults")
    given = parser.parse_args()
    if given.end is None:
        return int(bool(run(given.first, trace=given.trace, kind=given.kind).failed))
    done = [] if given.log is None or not given.log.exists() else _read(given.log)
    known = {one.seed for one in done}
    left = [seed for seed in range(given.first, given.end) if seed not in known]
    for one in run_all(left, given.jobs, kind=given.kind):
        done.append(one)
        if given.log is not None:
            with given.log.open("a") as log:
                log.write(json.dumps(asdict(one)) + "\n")
    failed = sorted(one.seed for one in done if one.failed)
    print(f"{len(done)} seeds in {sum(one.cpu_s for one in done):.0f} s of CPU; failed: {failed or 'none'}")
    return int(bool(failed))


def _read(log: Path) -> list[Done]:
    return [Done(**json.loads(line)) for line in log.read_text().splitlines()]


if __name__ == "__main__":
    sys.exit(main())
