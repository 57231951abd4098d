"""Targets: whether three sites learn counts, rare classes and odd cells as well as a model of all their rows.

    counts        swarms with the loss of counts and with Huber's, beside Poisson models of all rows
    calibration   the mean probability of a class of 3 %, as the balanced model gives it, and corrected
    lab           exports with limits, decimal commas and spellings, beside logistic regression on all rows
    texts         of which package a docstring is, by its words and by a sentence encoder, beside all rows
    wide          396 columns of five sites at epsilon 3: scales from public ranges, one site or an agreement

node.init makes the task of the first site's file. The sites learn in one process with a node's own code,
without privacy except in `wide`. No site has the test rows.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

from benchmarks.spec import Benchmark, Row, Scores, check_counts

PARTS = ("counts", "calibration", "lab", "texts", "wide")
COUNTS = ("visits", "open-accounts", "inquiries")
SPLITS, QUICK_SPLITS = 5, 1
CLOSE = 0.01
"""How far the swarm's R2 or AUC may be below that of the other model."""
OFF = 0.005
"""How far the mean of the corrected probabilities may be from the share of the class."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    add = parser.add_argument
    add("--part", nargs="+", choices=PARTS, default=PARTS, help="default: all")
    add("--data-dir", type=Path, metavar="DIR", help="the data sets' folder (default: as for scenarios)")
    add("--splits", type=int, help=f"of each set (default {SPLITS}; quick {QUICK_SPLITS}, of made-up sets)")


def run(arguments: argparse.Namespace) -> Iterator[Row]:
    """Yield a verdict for each data set of counts, and for each other part."""
    check_counts(arguments, "splits")
    splits = range(arguments.splits or (QUICK_SPLITS if arguments.quick else SPLITS))
    names = COUNTS[:1] if arguments.quick else COUNTS
    return _rows(arguments.part, names, splits, arguments.data_dir)


def _rows(
    parts: Sequence[str], names: Sequence[str], splits: Sequence[int], data_dir: Path | None
) -> Iterator[Row]:
    from benchmarks.targets.counts import count_scores  # noqa: PLC0415 - loads torch
    from benchmarks.targets.lab import lab_scores  # noqa: PLC0415
    from benchmarks.targets.rare import rare_scores  # noqa: PLC0415
    from benchmarks.targets.texts import text_scores  # noqa: PLC0415
    from benchmarks.targets.wide import wide_scores  # noqa: PLC0415
    from node.data.text.sentences import USUAL, is_installed  # noqa: PLC0415
    from node.task.data_schema import HASHED  # noqa: PLC0415
    from scenarios.data.sources import data_folder  # noqa: PLC0415 - loads pyarrow

    folder = data_folder(data_dir, os.environ)
    if "counts" in parts:
        for name in names:
            found = [count_scores(name, folder, number) for number in splits]
            yield _verdict_row(f"counts {name}", found, lambda one: one["r2"] - one["r2 pooled"], CLOSE)
    if "calibration" in parts:
        found = [rare_scores(number) for number in splits]
        yield _verdict_row("calibration", found, lambda one: -abs(one["corrected"] - one["share"]), OFF)
    if "lab" in parts:
        found = [lab_scores(number) for number in splits]
        yield _verdict_row("lab", found, lambda one: one["auc"] - one["auc pooled"], CLOSE)
    if "texts" in parts:
        for encoder in (HASHED, *([USUAL] if is_installed() else [])):
            found = [text_scores(encoder, number) for number in splits]
            name = "hashed" if encoder == HASHED else "sentences"
            yield _verdict_row(f"texts {name}", found, lambda one: one["swarm"] - one["pooled"], CLOSE)
    if "wide" in parts:
        found = [wide_scores(number) for number in splits]
        yield _verdict_row("wide", found, lambda one: one["auc ranges"] - one["auc means"], CLOSE)


def _verdict_row(
    name: str, found: Sequence[Scores], difference: Callable[[Scores], float], close: float
) -> Row:
    """Return the mean of each score, and whether the mean difference is at least -close."""
    means = {figure: mean(one[figure] for one in found) for figure in found[0]}
    scores = ", ".join(f"{figure} {value:.4f}" for figure, value in means.items())
    values = [difference(one) for one in found]
    error = stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
    holds = mean(values) >= -close
    text = (
        f"{name:22} {scores}; difference {mean(values):+.4f} ± {error:.4f}  "
        f"{'✓' if holds else '✗'} at least {-close:g}"
    )
    record = {"set": name, "splits": len(found), "means": means, "values": [dict(one) for one in found]}
    judged = {"difference": mean(values), "standard_error": error, "at_least": -close, "holds": holds}
    return Row(text, {**record, **judged})


TARGETS = Benchmark(add_options, run)
