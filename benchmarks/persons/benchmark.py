"""Persons: what it costs to promise epsilon to a person, who has 2 to 40 rows, instead of a row."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from benchmarks.spec import Benchmark, Figure, check_counts

ALL, QUICK, SEEDS = 2000, 200, 3


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"splits and noises (default {SEEDS})")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Yield the figures of all arms: AUC of persons held back, and the time of a row of a step."""
    check_counts(arguments, "seeds")
    from benchmarks.persons.arms import figures  # noqa: PLC0415 - loads torch: after the options

    return figures(QUICK, 1) if arguments.quick else figures(ALL, arguments.seeds)


PERSONS = Benchmark(add_options, run)
