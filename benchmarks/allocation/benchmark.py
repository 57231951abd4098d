"""Allocation: how RPFL divides a budget among clients, beside a convex solver, and its time for many."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from benchmarks.spec import Benchmark, Figure, check_counts

CASES, QUICK_CASES = 200, 20
REPEATS, QUICK_REPEATS = 200, 20


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--cases", type=int, help=f"random cases beside the solver (default {CASES})")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Yield the largest excess cost over the solver's, then the times."""
    check_counts(arguments, "cases")
    from benchmarks.allocation.comparison import findings  # noqa: PLC0415 - loads torch and scipy's solvers

    cases = arguments.cases or (QUICK_CASES if arguments.quick else CASES)
    return findings(cases, QUICK_REPEATS if arguments.quick else REPEATS)


ALLOCATION = Benchmark(add_options, run)
