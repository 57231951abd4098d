"""Replays seeds of the box: `python -m tests.box 4711`, or `python -m tests.box 0 20000` for a range.

With `--log` a range goes on where it was left: the file holds the seeds that are done, and why those that
failed did. The trace of a seed that fails is printed; `--trace` prints it in any case.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from tests.box.disk import folder_in_memory
from tests.box.seeds import run_seed


@dataclass(frozen=True)
class Done:
    """A seed that was run; `failed` says why it failed, if it did."""

    seed: int
    failed: str
    cpu_s: float


def run(seed: int, *, trace: bool = False) -> Done:
    """Runs a seed; prints its trace if asked, or if it fails."""
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    begun_s, failed = time.process_time(), ""
    with folder_in_memory() as folder:
        try:
            box = run_seed(seed, folder / "box")
            if trace:
                print("\n".join(box.trace))
        except Exception as error:  # noqa: BLE001 - a seed that fails is what this looks for
            failed = f"{type(error).__name__}: {error}"
            print(f"seed {seed} failed\n{failed}", flush=True)
    return Done(seed, failed[:2000], round(time.process_time() - begun_s, 2))


def run_all(seeds: list[int], jobs: int) -> Iterator[Done]:
    """Runs seeds in so many processes; yields them in their order."""
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(run, seeds)


def main() -> int:
    """Runs the command; the exit status is 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.box", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int, nargs="?", help="run first, first + 1, ... below this")
    parser.add_argument("--log", type=Path, help="a file of the seeds that are done, which is continued")
    parser.add_argument("--trace", action="store_true", help="print the trace of a single seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; usually one a core")
    given = parser.parse_args()
    if given.end is None:
        return int(bool(run(given.first, trace=given.trace).failed))
    lines = given.log.read_text().splitlines() if given.log is not None and given.log.exists() else ()
    done = [Done(**json.loads(line)) for line in lines]
    known = {one.seed for one in done}
    for one in run_all([seed for seed in range(given.first, given.end) if seed not in known], given.jobs):
        done.append(one)
        if given.log is not None:
            with given.log.open("a") as log:
                log.write(json.dumps(asdict(one)) + "\n")
    failed = sorted(one.seed for one in done if one.failed)
    print(f"{len(done)} seeds in {sum(one.cpu_s for one in done):.0f} s of CPU; failed: {failed or 'none'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
