"""Runs schedules of relayed streams: `python -m tests.streams 4711`, or `0 10000` for a range of seeds."""

from __future__ import annotations

import argparse
import sys
import time

from tests.streams.schedule import World


def main() -> int:
    """Runs the command; the exit status is 1 if a seed failed. One seed shows its error."""
    parser = argparse.ArgumentParser(prog="python -m tests.streams", description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int, nargs="?", help="run first, first + 1, ... below this")
    given = parser.parse_args()
    if given.end is None:
        World(given.first).run()
        return 0
    failed = []
    for seed in range(given.first, given.end):
        try:
            World(seed).run()
        except Exception as error:  # noqa: BLE001 - any error fails its seed, and others go on
            failed.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
    print(
        f"{given.end - given.first} seeds in {time.process_time():.0f} s of CPU; failed: {failed or 'none'}"
    )
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
