"""Rates: the origin of the defaults of shared private steps (node.task.step_defaults, docs/step-defaults.md).

One process simulates runs on public data. Settings around those of the table are compared on held-out
training rows, with the noise of a task that does not set `privacy.honest`. `--test` measures the table's
settings alone on the test rows, with as many honest members as the goals are for.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.spec import Benchmark, Row, check_counts
from node.system.errors import ConfigError

NAMES = ("digits", "adult", "adult-few", "mnist-mlp", "mnist-scattering")
EPSILONS = (1.0, 3.0, 8.0)
FACTORS, QUICK_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0), (1.0, 2.0)
SEEDS, QUICK_SEEDS, QUICK_STEPS = 3, 1, 20


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    add = parser.add_argument
    add("--data-dir", type=Path, metavar="DIR", help="the data sets' folder (default: as for scenarios)")
    add("--features", type=Path, metavar="DIR", help="keep scattering features there (default: nowhere)")
    add("--cases", help=f"with commas, of {', '.join(NAMES)} (default all; with --quick digits)")
    add("--epsilons", help=f"with commas (default {_list_text(EPSILONS)})")
    add("--factors", help=f"of the table's rate, with commas (default {_list_text(FACTORS)})")
    add("--steps", help="of a run, with commas (default: the table's)")
    add("--batches", help="expected rows of a step, with commas (default: the table's)")
    add("--clips", help="factors of the table's clipping radius, with commas (default 1)")
    add("--seeds", type=int, help=f"runs of each setting (default {SEEDS})")
    add("--test", action="store_true", help="measure the table's settings on the test rows, beside the goals")


def run(arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of `compare_settings`, or with --test those of `check_table`."""
    quick = arguments.quick
    names = arguments.cases.split(",") if arguments.cases else NAMES[:1] if quick else NAMES
    for name in names:
        if name not in NAMES:
            raise ConfigError(f"--cases {name}: allowed are {', '.join(NAMES)}")
    check_counts(arguments, "seeds")
    epsilons = _numbers("--epsilons", arguments.epsilons, EPSILONS[1:2] if quick else EPSILONS)
    factors = _numbers("--factors", arguments.factors, QUICK_FACTORS if quick else FACTORS)
    steps = _numbers("--steps", arguments.steps, (QUICK_STEPS,) if quick else ())
    batches = _numbers("--batches", arguments.batches, ())
    clips = _numbers("--clips", arguments.clips, (1.0,))
    seeds = range(arguments.seeds or (QUICK_SEEDS if quick else SEEDS))
    from benchmarks.rates.cases import Folders  # noqa: PLC0415 - loads torch
    from benchmarks.rates.search import Grid, check_table, compare_settings  # noqa: PLC0415 - loads torch
    from scenarios.data.sources import data_folder  # noqa: PLC0415 - loads pyarrow

    folders = Folders(data_folder(arguments.data_dir, os.environ), arguments.features)
    if arguments.test:
        return check_table(names, epsilons, seeds, folders)
    return compare_settings(names, epsilons, Grid(factors, steps, batches, clips), seeds, folders)


def _list_text(numbers: Sequence[float]) -> str:
    return ",".join(f"{number:g}" for number in numbers)


def _numbers(option: str, text: str | None, default: Sequence[float]) -> Sequence[float]:
    if text is None:
        return default
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or not all(0 < number <= 1e9 for number in numbers):
        raise ConfigError(f"{option} {text}: allowed are numbers above 0, with commas between them")
    return numbers


RATES = Benchmark(add_options, run)
