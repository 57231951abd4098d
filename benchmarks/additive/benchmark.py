"""Additive: the additive model on fresh splits of public tables, with privacy and without.

With privacy: three sites, of which one other is taken as honest, beside the logistic model by the same steps
on the same rows. Without: beside scikit-learn's HistGradientBoosting on the rows of all sites. A figure holds
if it is not below its goal by more than two standard errors, nor the model beside it paired. With `--nodes`
real nodes learn the first split. `--choose` compares learning rates and numbers of cells on a fifth of the
*training* rows of splits that nothing else uses.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

from benchmarks.spec import Benchmark, Row, check_counts
from node.system.errors import ConfigError

NAMES = ("adult", "loan")
EPSILONS = (1.0, 3.0, 8.0)
GOALS: Mapping[str, Sequence[float | None]] = {
    "adult": (0.9069, 0.9115, 0.9160),
    "loan": (None, 0.6925, 0.6943),
}
"""AUC at each epsilon: what a prototype reached on a split of the same size, if it is a goal."""
EXACT_GOALS = {"adult": 0.925, "loan": 0.675}
FIRST, PRIVATE_SPLITS, SPLITS = 10, 3, 5
CHOICES = ((0.5, 31), (1.0, 31), (2.0, 31), (1.0, 4))
"""With `--choose`: factors of the rate, and the most cells that a task allows."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    add = parser.add_argument
    add("--data-dir", type=Path, metavar="DIR", help="the data sets' folder (default: as for scenarios)")
    add("--sets", default=",".join(NAMES), help=f"with commas, of {', '.join(NAMES)} (default all)")
    add("--splits", type=int, help=f"of each set (default {PRIVATE_SPLITS}, without privacy {SPLITS})")
    add("--nodes", action="store_true", help="only three real nodes, on the first split")
    add("--choose", action="store_true", help="only compare settings on a fifth of the training rows")


def run(arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each set and epsilon."""
    names = arguments.sets.split(",")
    for name in names:
        if name not in NAMES:
            raise ConfigError(f"--sets {name}: allowed are {', '.join(NAMES)}")
    check_counts(arguments, "splits")
    from scenarios.data.sources import data_folder  # noqa: PLC0415 - loads pyarrow

    splits = arguments.splits or (1 if arguments.quick else None)
    folder = data_folder(arguments.data_dir, os.environ)
    if arguments.choose:
        return _choices(names, splits or PRIVATE_SPLITS, folder)
    if arguments.nodes:
        return _by_nodes(names, folder)
    return _rows(names, splits, folder)


def _rows(names: Sequence[str], splits: int | None, folder: Path) -> Iterator[Row]:
    from benchmarks.additive.arms import boosting_auc, exact_auc, private_auc, workplaces  # noqa: PLC0415 - loads torch

    for name in names:
        exact, boosted = [], []
        for place in workplaces(name, folder, range(FIRST, FIRST + (splits or SPLITS)), in_all=False):
            task = place.task(place.curves, epsilon=None)
            exact.append(exact_auc(task, place.datasets))
            boosted.append(boosting_auc(place.split))
        yield _row(name, None, exact, ("HistGradientBoosting, pooled", boosted), EXACT_GOALS[name])
        found: dict[float, tuple[list[float], list[float]]] = {epsilon: ([], []) for epsilon in EPSILONS}
        for place in workplaces(name, folder, range(FIRST, FIRST + (splits or PRIVATE_SPLITS))):
            for epsilon, arms in found.items():
                for values, model in zip(arms, (place.additive, place.linear), strict=True):
                    task = place.task(model, epsilon=epsilon)
                    values.append(private_auc(task, place.datasets, place.number))
        for (epsilon, (additive, logistic)), goal in zip(found.items(), GOALS[name], strict=True):
            yield _row(name, epsilon, additive, ("logistic, same steps", logistic), goal)


def _row(
    name: str,
    epsilon: float | None,
    values: Sequence[float],
    beside: tuple[str, Sequence[float]],
    goal: float | None,
) -> Row:
    """Return the AUC of the additive model, beside another's on the same splits."""
    others, differences = beside[1], [one - other for one, other in zip(values, beside[1], strict=True)]
    error, paired = _error(values), _error(differences)
    reaches = goal is None or mean(values) + 2 * error >= goal
    holds = reaches and mean(differences) > 0
    budget = "exact" if epsilon is None else f"epsilon {epsilon:g}"
    text = (
        f"{name:6} {budget:10} additive {mean(values):.4f} ± {error:.4f}  "
        f"{beside[0]} {mean(others):.4f}  difference {mean(differences):+.4f} ± {paired:.4f}  "
        f"{'✓' if holds else '✗'}{'' if goal is None else f' at least {goal:.4f}'}, and above it"
    )
    record = {
        "set": name,
        "epsilon": epsilon,
        "values": list(values),
        "mean": mean(values),
        "standard_error": error,
        "beside": beside[0],
        "beside_values": list(others),
        "difference": mean(differences),
        "difference_error": paired,
        "goal": goal,
        "holds": holds,
    }
    return Row(text, record)


def _error(values: Sequence[float]) -> float:
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0


def _by_nodes(names: Sequence[str], folder: Path) -> Iterator[Row]:
    """Yield for each set and epsilon the AUC of a model that real nodes made, on loopback."""
    from benchmarks.additive.arms import nodes_auc, workplaces  # noqa: PLC0415 - loads torch

    for name in names:
        for place in workplaces(name, folder, range(FIRST, FIRST + 1)):
            for epsilon in EPSILONS:
                auc = nodes_auc(place.task(place.additive, epsilon=epsilon), place)
                text = f"{name:6} epsilon {epsilon:<4g} three real nodes, split {place.number}: {auc:.4f}"
                yield Row(text, {"set": name, "epsilon": epsilon, "kind": "three real nodes", "auc": auc})


def _choices(names: Sequence[str], splits: int, folder: Path) -> Iterator[Row]:
    """Yield the AUC on training rows held out, for each of CHOICES."""
    from benchmarks.additive.arms import private_auc, workplaces  # noqa: PLC0415 - loads torch

    for name in names:
        found: dict[tuple[float, float, int], list[float]] = {}
        for place in workplaces(name, folder, range(splits), held_out=True):
            for epsilon in EPSILONS:
                for factor, cells in CHOICES:
                    model = place.additive | {"args": {"cells": cells}}
                    task = place.task(model, epsilon=epsilon)
                    rate = float(f"{factor * task.train.learning_rate:.2g}")
                    task = replace(task, train=replace(task.train, learning_rate=rate))
                    auc = private_auc(task, place.datasets, place.number)
                    found.setdefault((epsilon, factor, cells), []).append(auc)
        for (epsilon, factor, cells), values in found.items():
            text = (
                f"{name:6} epsilon {epsilon:<4g} {factor:g} x the rate, at most {cells} cells: held-out "
                f"training rows {mean(values):.4f} ± {_error(values):.4f}"
            )
            record = {"set": name, "epsilon": epsilon, "factor": factor, "cells": cells, "values": values}
            yield Row(text, {**record, "kind": "held out"})


ADDITIVE = Benchmark(add_options, run)
