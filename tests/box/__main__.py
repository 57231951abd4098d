"""Replays seeds of the box: `python -m tests.box 4711`, or `python -m tests.box 0 20000` for a range.

A range goes on where it was left: the seeds that are done, and those that failed, stand in the file of
`--log`. The trace of a seed that fails is printed; `--trace` prints it in any case.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
import time
from pathlib import Path

import torch

from tests.box.seeds import run_seed


def main() -> int:
    """Runs the seeds; the exit status is 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.box", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int, nargs="?", help="run first, first + 1, ... below this")
    parser.add_argument("--log", type=Path, help="a file of seeds that are done, which is continued")
    parser.add_argument("--trace", action="store_true")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="begin no seed after so many s of CPU"
    )
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    done = [json.loads(line) for line in given.log.read_text().splitlines()] if _is_there(given.log) else []
    seeds = range(given.first, given.first + 1 if given.end is None else given.end)
    failed = {one["seed"] for one in done if one["failed"] and one["seed"] in seeds}
    for seed in sorted(set(seeds) - {one["seed"] for one in done}):
        if time.process_time() > given.seconds:
            break
        begun_s, error = time.process_time(), ""
        folder = Path(tempfile.mkdtemp(prefix="murmuration-box-", dir=_memory()))
        try:
            box = run_seed(seed, folder)
            if given.trace:
                print("\n".join(box.trace))
        except Exception as found:  # noqa: BLE001 - a seed that fails is what this looks for
            error = f"{type(found).__name__}: {found}"
            failed.add(seed)
            print(f"seed {seed} failed\n{error}", flush=True)
        if given.log is not None:
            line = {"seed": seed, "failed": error[:2000], "cpu_s": round(time.process_time() - begun_s, 2)}
            with given.log.open("a") as log:
                log.write(json.dumps(line) + "\n")
    print(f"{len(seeds)} seeds, failed: {sorted(failed) or 'none'}")
    return int(bool(failed))


def _is_there(path: Path | None) -> bool:
    return path is not None and path.exists()


def _memory() -> str | None:
    """Returns a folder in memory, if there is one: the box waits for no disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


if __name__ == "__main__":
    sys.exit(main())
