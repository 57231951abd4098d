"""Measures learning rates on a part of the training rows. The test rows of a split have no part in it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.defaults.comparison import WITHOUT_PRIVACY, swarm_scores
from node.data.partition import hold_out
from scenarios.data.tables import SETS, table
from scenarios.study.threads import one_thread
from scenarios.tables.learning import answers, prepare_split, rows_of
from scenarios.tables.sites import Split, split_of

_KINDS = {"node.models:Linear": "linear", "node.models:MLP": "mlp", "node.models:ConvNet": "cnn"}
_SHARE = 0.2  # of each site's training rows, which become validation rows
_CUT = 43  # a stream of random numbers: [this, the split's number, the site]


@dataclass(frozen=True)
class Validated:
    """The value of a swarm's metric on validation rows, at `rate`: `factor` times the table's."""

    name: str
    split: int
    factor: float
    rate: float
    metric: str
    value: float


def validate_rate(name: str, number: int, folder: Path, factor: float) -> Validated:
    """Train a swarm on a validation split, with the table's defaults and `factor` times its rate.

    The model is the one that node.init proposes for the first site's whole file. Raises UserError if
    node.init or training fails.
    """
    data = SETS[name]
    whole = split_of(data, table(name, folder), number)
    with one_thread(), threadpool_limits(1), tempfile.TemporaryDirectory() as files:
        proposed, _, _ = prepare_split(Path(files) / "whole", whole, data.file, WITHOUT_PRIVACY)
        options = (*WITHOUT_PRIVACY, "--model", _KINDS[proposed.model.cls])
        inner = validation_split(whole, number)
        task, sites, rest = prepare_split(Path(files) / "inner", inner, data.file, options)
        task = replace(task, train=replace(task.train, learning_rate=task.train.learning_rate * factor))
        rows = rows_of(task, sites, rest)
        metric, value = next(iter(swarm_scores(task, rows[0], answers(task, rows)).items()))
    return Validated(name, number, factor, task.train.learning_rate, metric, value)


def validation_split(split: Split, number: int) -> Split:
    """Return the training rows alone: a fifth of each site's rows takes the place of the test rows."""
    kept, rest = [], []
    for place, site in enumerate(split.sites):
        strata = site.y if site.is_classes else np.zeros(len(site))
        inside, outside = hold_out(strata, _SHARE, np.random.default_rng([_CUT, number, place]))
        kept.append(site.at(inside))
        rest.append(site.at(outside))
    return Split(tuple(kept), Split(tuple(rest), rest[0]).pooled_rows)
