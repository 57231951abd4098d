"""Audits: for each mechanism a lower bound on its epsilon, and how often planted faults are refuted.

A sound mechanism is refuted once in 20 times (alpha = .05) if its claim is exact, and its bound is near it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from benchmarks.spec import Benchmark, Figure


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--only", metavar="TEXT", help="the mechanisms with this in their names")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Yield a figure for each case, in the order of the mechanisms."""
    from benchmarks.audit.findings import findings  # noqa: PLC0415 - loads torch

    return findings(arguments.only, arguments.quick)


AUDIT = Benchmark(add_options, run)
