"""Audit: a lower bound on epsilon beside every claim, and whether planted faults are refuted.

With probability .99 or more, no proved claim of the table is refuted. The audits of files are a table of
their own.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from benchmarks.audit import CLAIMS, FAULTS, FILES, PARTS
from benchmarks.spec import Benchmark, Figure, Row


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--only", metavar="TEXT", help="only mechanisms with this in their names")
    parser.add_argument(
        "--part",
        nargs="+",
        choices=PARTS,
        help="the table of claims, the planted faults, the audits of whole files, those of shared noise; "
        "default: all four; with --quick and without --only the first three",
    )


def run(arguments: argparse.Namespace) -> Iterator[Figure | Row]:
    """Yield a row for each claim and a figure for each planted fault, part by part."""
    from benchmarks.audit.findings import findings  # noqa: PLC0415 - loads torch

    usual = (CLAIMS, FAULTS, FILES) if arguments.quick and arguments.only is None else PARTS
    return findings(arguments.only, arguments.part or usual, arguments.quick)


AUDIT = Benchmark(add_options, run)
