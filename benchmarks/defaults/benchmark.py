"""Defaults: whether a task of node.init learns as much as scikit-learn on the rows of all sites together.

Each split of a data set becomes three sites' files and a file of test rows. node.init makes a task, without
privacy, for members who may come and go, of the first site's file: a network. The three sites train in one
process with a node's own code. scikit-learn learns from the rows of all three files, in its own encoding.
With `--nodes` real nodes learn the first split of one set.

`--choose` compares the table's learning rate with others on a fifth of the *training* rows. The test rows of
a split have no part in it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from math import sqrt
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING

from benchmarks.spec import Benchmark, Row, check_counts
from node.system.errors import ConfigError

if TYPE_CHECKING:
    from benchmarks.defaults.choosing import Validated
    from benchmarks.defaults.comparison import Found, Verdict

NAMES = ("digits", "breast-cancer", "diabetes", "wine", "heavy-tails", "adult", "loan", "mnist")
QUICK, QUICK_SPLITS = ("wine", "diabetes"), 2
NODES = "breast-cancer"
FACTORS, CHOOSING_SPLITS = (1 / 3, 1.0, 3.0), 5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    add = parser.add_argument
    add("--data-dir", type=Path, metavar="DIR", help="the data sets' folder (default: as for scenarios)")
    add("--sets", help=f"with commas, of {', '.join(NAMES)} (default all; with --quick {','.join(QUICK)})")
    add("--splits", type=int, help="of each set (default: 20 of a small one, 5 or 3 of a large one)")
    add("--jobs", type=int, default=2, help="processes at once (default 2)")
    add("--choose", action="store_true", help="compare learning rates on a fifth of the training rows")
    add("--factors", help="with --choose: of the table's rate, with commas (default 0.33,1,3)")
    add("--nodes", action="store_true", help=f"also three real nodes on {NODES}")


def run(arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each metric of each data set; with --choose, for each learning rate."""
    names = arguments.sets.split(",") if arguments.sets else QUICK if arguments.quick else NAMES
    for name in names:
        if name not in NAMES:
            raise ConfigError(f"--sets {name}: allowed are {', '.join(NAMES)}")
    check_counts(arguments, "splits", "jobs")
    from scenarios.data.sources import data_folder  # noqa: PLC0415 - loads pyarrow

    splits = arguments.splits or (QUICK_SPLITS if arguments.quick else None)
    folder = data_folder(arguments.data_dir, os.environ)
    if arguments.choose:
        factors = _factors(arguments.factors)
        return _choice_rows(names, splits or CHOOSING_SPLITS, folder, arguments.jobs, factors)
    if arguments.factors is not None:
        raise ConfigError(f"--factors {arguments.factors} has no effect without --choose; leave it out")
    return _rows(names, splits, folder, arguments.jobs, nodes=arguments.nodes)


def _factors(text: str | None) -> Sequence[float]:
    if text is None:
        return FACTORS
    try:
        found = tuple(dict.fromkeys((1.0, *map(float, text.split(",")))))
    except ValueError:
        found = ()
    if not found or not all(0 < factor <= 1000 for factor in found):
        raise ConfigError(f"--factors {text}: allowed are numbers above 0, with commas between them")
    return tuple(sorted(found))


def _choice_rows(
    names: Sequence[str], splits: int, folder: Path, jobs: int, factors: Sequence[float]
) -> Iterator[Row]:
    """Yield for each data set a row for each rate, and how far the table's is below the best."""
    from benchmarks.defaults.choosing import validate_rate  # noqa: PLC0415 - loads torch

    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        waiting = {
            (name, factor): [
                pool.submit(validate_rate, name, number, folder, factor) for number in range(splits)
            ]
            for name in names
            for factor in factors
        }
        for name in names:
            found = {factor: [one.result() for one in waiting[name, factor]] for factor in factors}
            for factor, each in found.items():
                yield _rate_row(each, factor)
            yield _choice_row(found)


def _rate_row(found: Sequence[Validated], factor: float) -> Row:
    values = [one.value for one in found]
    error = stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
    rates = sorted({one.rate for one in found})
    text = (
        f"{found[0].name:14} validation  {factor:g} x the rate = {', '.join(f'{rate:g}' for rate in rates)}: "
        f"{found[0].metric} {mean(values):.4f} ± {error:.4f}"
    )
    record = {"set": found[0].name, "kind": "validation", "factor": factor, "rates": rates}
    return Row(text, {**record, "metric": found[0].metric, "mean": mean(values), "values": values})


def _choice_row(found: Mapping[float, Sequence[Validated]]) -> Row:
    """Return how far the table's rate is below the best one, as a mean over the splits."""
    means = {factor: round(mean(one.value for one in each), 9) for factor, each in found.items()}
    best = max(means, key=lambda factor: (means[factor], factor == 1.0))
    differences = [one.value - other.value for one, other in zip(found[best], found[1.0], strict=True)]
    error = stdev(differences) / sqrt(len(differences)) if len(differences) > 1 else 0.0
    name = found[1.0][0].name
    text = f"{name:14} the table is {mean(differences):.4f} ± {error:.4f} below the best, {best:g} x its rate"
    record = {
        "set": name,
        "kind": "choice",
        "best": best,
        "below": mean(differences),
        "standard_error": error,
    }
    return Row(text, record)


def _rows(names: Sequence[str], splits: int | None, folder: Path, jobs: int, nodes: bool) -> Iterator[Row]:
    from benchmarks.defaults.comparison import compare_split, node_scores, verdicts  # noqa: PLC0415 - loads torch
    from scenarios.data.tables import SETS  # noqa: PLC0415

    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        waiting = {
            name: [
                pool.submit(compare_split, name, number, folder)
                for number in range(splits or SETS[name].splits)
            ]
            for name in names
        }
        for name, each in waiting.items():
            found = [one.result() for one in each]
            for verdict in verdicts(found):
                yield _metric_row(name, found, verdict)
    if nodes:
        yield _nodes_row(node_scores(NODES, 0, folder), compare_split(NODES, 0, folder).swarm)


def _metric_row(name: str, found: Sequence[Found], verdict: Verdict) -> Row:
    """Return a metric of the swarm on a data set, beside scikit-learn's."""
    first, difference = found[0], f"{verdict.difference:+.4f} ± {verdict.standard_error:.4f}"
    text = (
        f"{name:14} {first.model:8} {verdict.metric:18} {verdict.swarm:.4f}  {first.beside:20} "
        f"{verdict.reference:.4f}  difference {difference}  {'✓' if verdict.holds else '✗'} "
        f"at least {-verdict.allowed_shortfall:.4f}"
    )
    judged = {
        "difference": verdict.difference,
        "at_least": -verdict.allowed_shortfall,
        "holds": verdict.holds,
    }
    return Row(text, {"set": name, **asdict(verdict), **judged, **_shared_facts(found)})


def _shared_facts(found: Sequence[Found]) -> dict[str, object]:
    """Return what the records of all metrics of a data set have in common."""
    return {
        "model": found[0].model,
        "training": sorted({one.training for one in found}),
        "beside": found[0].beside,
        "splits": len(found),
        "train_rows": found[0].train_rows,
        "test_rows": found[0].test_rows,
        "seconds_swarm": round(sum(one.swarm_s for one in found), 1),
        "seconds_reference": round(sum(one.reference_s for one in found), 1),
        "values": [[dict(one.swarm), dict(one.reference)] for one in found],
    }


def _nodes_row(nodes: Mapping[str, float], replayed: Mapping[str, float]) -> Row:
    pairs = ", ".join(f"{metric} {nodes[metric]:.4f} (replayed {replayed[metric]:.4f})" for metric in nodes)
    record = {"set": NODES, "kind": "three real nodes", "nodes": dict(nodes), "replayed": dict(replayed)}
    return Row(f"{NODES:14} three real nodes: {pairs}", record)


DEFAULTS = Benchmark(add_options, run)
