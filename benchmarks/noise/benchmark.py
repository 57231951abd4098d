"""Noise: GB/s of float32 on one core, beside torch's and numpy's noise in the same run, and its memory.

Torch and numpy draw values of 24 bits from a Mersenne twister and from PCG64, which are no cryptographic
generators. The low digits of a sum with such noise reveal the summand. They are here for their speed alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from benchmarks.spec import Benchmark, Figure, check_counts

DIMENSION, QUICK_DIMENSION = 10_000_000, 200_000
REPEATS, QUICK_REPEATS = 9, 3


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--repeats", type=int, help=f"timings of each kind (default {REPEATS})")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Yield the speeds of all kinds, their ratios, and the memory of ours."""
    check_counts(arguments, "repeats")
    from benchmarks.noise.contest import findings  # noqa: PLC0415 - loads torch

    repeats = arguments.repeats or (QUICK_REPEATS if arguments.quick else REPEATS)
    return findings(QUICK_DIMENSION if arguments.quick else DIMENSION, repeats)


NOISE = Benchmark(add_options, run)
