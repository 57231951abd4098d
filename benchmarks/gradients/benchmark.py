"""Gradients: the CPU time of a sum of clipped gradients on one thread, beside that of a plain step.

These kinds take turns: a plain step (forward and backward pass), our sum by book-keeping, a sum of the full
gradients of single rows (vmap), and, if --opacus names an environment, both modes of Opacus. No kind adds
noise, whose time depends on the number of parameters alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from benchmarks.spec import Benchmark, Row, check_counts
from node.system.errors import ConfigError

TURNS, QUICK_TURNS = 15, 1
BATCH = 256


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--turns", type=int, help=f"timings of each kind and model (default {TURNS})")
    parser.add_argument("--batch", type=int, default=BATCH, help=f"rows of a batch (default {BATCH})")
    parser.add_argument(
        "--opacus", type=Path, metavar="VENV", help="a virtual environment with opacus, to compare with"
    )


def run(arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each model and kind: its time, its ratio to a plain step, and targets of ours."""
    check_counts(arguments, "turns", "batch")
    python = None if arguments.opacus is None else arguments.opacus / "bin" / "python"
    if python is not None and not python.is_file():
        raise ConfigError(f"--opacus {arguments.opacus}: there is no {python}; name a virtual environment")
    from benchmarks.gradients.contest import findings  # noqa: PLC0415 - loads torch

    turns = arguments.turns or (QUICK_TURNS if arguments.quick else TURNS)
    return findings(arguments.batch, turns, python)


GRADIENTS = Benchmark(add_options, run)
