"""A program for a test to interrupt with Ctrl-C: a swarm that would learn for a very long time."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from node import Swarm, load_task
from node.api.thread_runner import Run


def main(argv: Sequence[str]) -> int:
    """Runs the swarm; reports when the first round is over. `argv`: the folder for temporary folders."""
    tempfile.tempdir = argv[0]
    swarm = Swarm.local(3, load_task("digits", ["train.rounds=100000"]))
    take = Run._take

    def taking(self: Run, record: object) -> None:
        print("a round is over", flush=True)
        take(self, record)

    Run._take = taking  # type: ignore[method-assign,assignment]
    try:
        swarm.run()
    except KeyboardInterrupt:
        left = [path.name for path in Path(argv[0]).iterdir()]
        print(f"interrupted, {swarm.results.agreed is not None}, left: {left}", flush=True)
        return 130
    sys.exit("it came to its end")
