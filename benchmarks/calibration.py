"""Calibration: the noise of the classic and of the exact rule at the same stated budget, and their time."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count

from benchmarks.spec import Benchmark, Figure, check_counts, figure
from mechanisms.accounting import gaussian
from mechanisms.accounting.ledger import releases_noise_multiplier, sampled_noise_multiplier

DELTA = 1e-5
RELEASES = (1, 10, 100)
EPSILONS = (1.0, 5.0, 8.0, 10.0, 20.0)
CLIPPING_RADIUS = 1.0
SENSITIVITY = 2 * CLIPPING_RADIUS
RATIO_AT_LEAST, RATIO_RELEASES = 8.0, 100
SAMPLED = ((0.01, 1_000), (0.01, 10_000), (1e-5, 10_000))
SAMPLED_EPSILON, SAMPLED_SECONDS_AT_MOST = 8.0, 2.0
REPEATS, QUICK_REPEATS = 5, 2


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--repeats", type=int, help=f"timings of each calibration (default {REPEATS})")


def run(arguments: argparse.Namespace) -> Iterator[Figure]:
    """Yield the noise of both calibrations, the epsilon that it proves, and the time of a calibration."""
    check_counts(arguments, "repeats")
    repeats = arguments.repeats or (QUICK_REPEATS if arguments.quick else REPEATS)
    return _figures(repeats, SAMPLED[:1] if arguments.quick else SAMPLED)


def _figures(repeats: int, sampled: Sequence[tuple[float, int]]) -> Iterator[Figure]:
    for releases in RELEASES:
        for epsilon in EPSILONS:
            yield from compare_calibrations(epsilon, releases)
    yield from _time_figures(repeats, sampled)


def compare_calibrations(epsilon: float, releases: int) -> Iterator[Figure]:
    """Yield the noise of both calibrations for one tensor, clipped to radius 1: its sensitivity is 2."""
    classic = gaussian.classic_noise_multiplier(epsilon / releases, DELTA / releases, replay=True)
    exact = releases_noise_multiplier(epsilon, DELTA, releases)
    case = f"T={releases} eps={epsilon:g}"
    at_least = RATIO_AT_LEAST if releases == RATIO_RELEASES else None
    note = "sigma, clipping radius 1"
    yield figure("calibration", case, "noise, linear-classic", "", [SENSITIVITY * classic], note=note)
    yield figure("calibration", case, "noise, exact", "", [SENSITIVITY * exact], note=note)
    yield figure("calibration", case, "linear-classic / exact", "", [classic / exact], at_least=at_least)
    for name, each in (("linear-classic", classic), ("exact", exact)):
        proved = gaussian.epsilon(DELTA, gaussian.compose([each] * releases))
        yield figure("calibration", case, f"proved eps, {name}", "", [proved], note=f"delta {DELTA:g}")


def _time_figures(repeats: int, sampled: Sequence[tuple[float, int]]) -> Iterator[Figure]:
    # Each timing has a new budget, because the mechanisms cache their results.
    budgets = (SAMPLED_EPSILON * (1 + number / 1000) for number in count())
    values = _time_calibrations(lambda: releases_noise_multiplier(next(budgets), DELTA, 100), repeats)
    yield figure("calibration", "closed form, T=100", "time of a calibration", "s", values)
    for q, steps in sampled:

        def calibrate(q: float = q, steps: int = steps) -> object:
            return sampled_noise_multiplier(next(budgets), DELTA, q, steps)

        case, at_most = f"PLD, q={q:g}, T={steps}", SAMPLED_SECONDS_AT_MOST
        yield figure(
            "calibration", case, "time of a calibration", "s", _time_calibrations(calibrate, repeats), at_most
        )


def _time_calibrations(calibrate: Callable[[], object], repeats: int) -> list[float]:
    calibrate()  # not timed: the first call imports modules
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        calibrate()
        seconds.append(time.perf_counter() - begun)
    return seconds


CALIBRATION = Benchmark(add_options, run)
