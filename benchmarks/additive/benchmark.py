"""Additive: the additive model on fresh splits of public tables, with privacy and without.

With privacy: three sites, of which one other is taken as honest, beside the logistic model by the same steps
and the program with which the model was designed (`benchmarks.additive.central`), both on the same rows. A
figure holds if it is above the logistic model, and not below the design by more than two standard errors of
their paired difference. Without: beside scikit-learn's HistGradientBoosting on the rows of all sites, and a
goal. With `--nodes` real nodes learn the first split. `--choose` compares numbers of cells, rates and shares
of the budget by that program, on a fifth of the *training* rows of splits that nothing else uses.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory

from benchmarks.spec import Benchmark, Row, check_counts
from node.system.errors import ConfigError

NAMES = ("adult", "loan")
EPSILONS = (1.0, 3.0, 8.0)
EXACT_GOALS = {"adult": 0.925, "loan": 0.675}
FIRST, SPLITS, CHOICE_SPLITS = 10, 5, 3
NOISES = 5
"""Runs of the design's program on a split, whose mean counts: it takes a second."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    add = parser.add_argument
    add("--data-dir", type=Path, metavar="DIR", help="the data sets' folder (default: as for scenarios)")
    add("--sets", default=",".join(NAMES), help=f"with commas, of {', '.join(NAMES)} (default all)")
    add("--splits", type=int, help=f"of each set (default {SPLITS}; {CHOICE_SPLITS} with --choose)")
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
        return _choices(names, splits or CHOICE_SPLITS, folder)
    if arguments.nodes:
        return _by_nodes(names, folder)
    return _rows(names, splits or SPLITS, folder)


def _rows(names: Sequence[str], count: int, data: Path) -> Iterator[Row]:
    from benchmarks.additive.arms import splits  # noqa: PLC0415 - loads torch
    from benchmarks.additive.central import DESIGN, central_auc  # noqa: PLC0415 - loads scikit-learn
    from scenarios.tables.rivals import boosting_figure  # noqa: PLC0415 - loads scikit-learn

    numbers = range(FIRST, FIRST + count)
    for name in names:
        exact, boosted = [], []
        for one in splits(name, data, numbers, in_all=False):
            with TemporaryDirectory() as folder:
                exact.append(one.exact_auc(Path(folder)))
            boosted.append(boosting_figure(one.split.pooled_rows, one.split.test))
        yield _row(name, None, exact, {"HistGradientBoosting, pooled": boosted}, EXACT_GOALS[name])
        found = []
        for one in splits(name, data, numbers):
            designs = [
                mean(central_auc(one.split, epsilon, DESIGN, seed) for seed in range(NOISES))
                for epsilon in EPSILONS
            ]
            with TemporaryDirectory() as folder:
                additive = one.private_aucs("additive", EPSILONS, Path(folder))
                logistic = one.private_aucs("linear", EPSILONS, Path(folder))
            found.append((additive, logistic, designs))
        for place, epsilon in enumerate(EPSILONS):
            additive, logistic, designs = ([arm[place] for arm in arms] for arms in zip(*found, strict=True))
            beside = {"logistic, same steps": logistic, "design": designs}
            yield _row(name, epsilon, additive, beside, None)


def _row(
    name: str,
    epsilon: float | None,
    values: Sequence[float],
    beside: Mapping[str, Sequence[float]],
    goal: float | None,
) -> Row:
    """Return the AUC of the additive model beside others' on the same splits: above the first of them.

    It is not below the goal, nor below any other, by more than two standard errors.
    """
    budget = "exact" if epsilon is None else f"epsilon {epsilon:g}"
    text = f"{name:6} {budget:10} additive {mean(values):.4f} ± {_error(values):.4f}"
    others = []
    holds = goal is None or mean(values) + 2 * _error(values) >= goal
    for place, (words, figures) in enumerate(beside.items()):
        differences = [one - other for one, other in zip(values, figures, strict=True)]
        gain, error = mean(differences), _error(differences)
        holds &= gain >= -2 * error if place else gain > 0
        text += f"  {words} {mean(figures):.4f}  difference {gain:+.4f} ± {error:.4f}"
        others.append({"name": words, "values": list(figures), "difference": gain, "difference_error": error})
    record = {
        "set": name,
        "epsilon": epsilon,
        "values": list(values),
        "mean": mean(values),
        "standard_error": _error(values),
        "beside": others,
        "goal": goal,
        "holds": holds,
    }
    return Row(f"{text}  {'✓' if holds else '✗'}{'' if goal is None else f' at least {goal:.4f}'}", record)


def _error(values: Sequence[float]) -> float:
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0


def _by_nodes(names: Sequence[str], data: Path) -> Iterator[Row]:
    """Yield for each set and epsilon the AUC of a model that real nodes made, on loopback."""
    from benchmarks.additive.arms import splits  # noqa: PLC0415 - loads torch

    for name in names:
        for one in splits(name, data, [FIRST]):
            for epsilon in EPSILONS:
                with TemporaryDirectory() as folder:
                    auc = one.nodes_auc(epsilon, Path(folder))
                text = f"{name:6} epsilon {epsilon:<4g} three real nodes, split {one.number}: {auc:.4f}"
                yield Row(text, {"set": name, "epsilon": epsilon, "kind": "three real nodes", "auc": auc})


def _choices(names: Sequence[str], count: int, data: Path) -> Iterator[Row]:
    """Yield the AUC on training rows held out, for each of the settings compared."""
    from benchmarks.additive.arms import splits, without_test_rows  # noqa: PLC0415 - loads torch
    from benchmarks.additive.central import central_auc, compared  # noqa: PLC0415 - loads scikit-learn

    for name in names:
        held_out = [without_test_rows(one.split, one.number) for one in splits(name, data, range(count))]
        for epsilon in EPSILONS:
            for words, setting in compared(held_out[0], epsilon).items():
                values = [
                    mean(central_auc(split, epsilon, setting, seed) for seed in range(NOISES))
                    for split in held_out
                ]
                text = (
                    f"{name:6} epsilon {epsilon:<4g} {words:27} held-out training rows "
                    f"{mean(values):.4f} ± {_error(values):.4f}"
                )
                record = {"set": name, "epsilon": epsilon, **asdict(setting), "values": values}
                yield Row(text, {**record, "kind": "held out"})


ADDITIVE = Benchmark(add_options, run)
