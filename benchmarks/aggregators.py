"""Robust aggregators: their time for 50 updates of 100,000 parameters, beside the operations they rest on."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from benchmarks.spec import Benchmark, Figure, check_counts, figure
from mechanisms.servers.robust import (
    Updates,
    bulyan,
    centred_clipping,
    coordinate_median,
    geometric_median,
    krum,
    multi_krum,
    norm_bounded_mean,
    squared_distances,
    trimmed_mean,
)

CLIENTS, ATTACKERS = 50, 10
DIMENSION, QUICK_DIMENSION = 100_000, 5_000
REPEATS, QUICK_REPEATS = 9, 2
TIMES_AT_MOST = 3.0

Call = Callable[[Updates], object]

BY_SORTING: Mapping[str, Call] = {
    "coordinate median": coordinate_median,
    "trimmed mean": lambda rows: trimmed_mean(rows, ATTACKERS),
}
BY_DISTANCES: Mapping[str, Call] = {
    "krum": lambda rows: krum(rows, ATTACKERS),
    "multi-krum": lambda rows: multi_krum(rows, ATTACKERS, CLIENTS - 2 * ATTACKERS),
    "bulyan": lambda rows: bulyan(rows, ATTACKERS),
}


OTHERS: Mapping[str, Call] = {
    "norm bound": lambda rows: norm_bounded_mean(rows, 1.0),
    "geometric median": geometric_median,
    "centred clipping": lambda rows: centred_clipping(rows, np.zeros(rows.shape[1], np.float32), 1.0),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--repeats", type=int, help=f"timings of each aggregator (default {REPEATS})")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Yield the time of each aggregator, and its ratio to the operation that its family rests on."""
    check_counts(arguments, "repeats")
    repeats = arguments.repeats or (QUICK_REPEATS if arguments.quick else REPEATS)
    dimension = QUICK_DIMENSION if arguments.quick else DIMENSION
    rows = np.random.default_rng(0).standard_normal((CLIENTS, dimension)).astype(np.float32)
    return _figures(rows, repeats, None if arguments.quick else TIMES_AT_MOST)


def _figures(rows: Updates, repeats: int, at_most: float | None) -> Iterator[Figure]:
    case = f"{rows.shape[0]} x {rows.shape[1]}"
    families: tuple[tuple[str, Call, Mapping[str, Call], float | None], ...] = (
        ("numpy.sort", lambda rows: np.sort(rows, axis=0), BY_SORTING, at_most),
        ("one distance matrix", squared_distances, BY_DISTANCES, at_most),
        ("numpy.mean", lambda rows: rows.mean(axis=0), OTHERS, None),
    )
    for base, plain, family, most in families:
        taken = time_in_turns({base: plain, **family}, rows, repeats)
        for name, seconds in taken.items():
            yield figure("aggregators", case, name, "ms", [1e3 * value for value in seconds])
        for name in family:
            ratios = [own / other for own, other in zip(taken[name], taken[base], strict=True)]
            yield figure("aggregators", case, f"{name} / {base}", "", ratios, most)


def time_in_turns(calls: Mapping[str, Call], rows: Updates, repeats: int) -> dict[str, list[float]]:
    """Return the seconds of each call on `rows`. They take turns: other work on the machine slows all."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats + 1):
        for name, call in calls.items():
            begun = time.perf_counter()
            call(rows)
            taken[name].append(time.perf_counter() - begun)
    return {name: seconds[1:] for name, seconds in taken.items()}  # the first run warms up


AGGREGATORS = Benchmark(add_options, run)
