"""Compares learning rates on rows cut from training rows: the splits' test rows have no part in it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.defaults.comparison import WITHOUT_PRIVACY, of_swarm
from benchmarks.defaults.sites import Split, split_of
from benchmarks.defaults.swarm import answers, made_task, rows_of
from benchmarks.defaults.tables import SETS, Table, table
from node.data.partition import hold_out
from scenarios.study.threads import one_thread

_SHARE = 0.2  # of each site's training rows
_CUT = 43  # a stream of random numbers: [this, the split's number, the site]


@dataclass(frozen=True)
class Validated:
    """What a swarm reached on validation rows at `rate`, which is `factor` times the table's."""

    name: str
    split: int
    factor: float
    rate: float
    metric: str
    value: float


def validated(name: str, number: int, folder: Path, factor: float) -> Validated:
    """Return what a swarm with the table's defaults, and its rate times `factor`, reaches in one split.

    Raises UserError if node.init or training fails.
    """
    data = SETS[name]
    split = cut(split_of(data, table(name, folder), number), number)
    with one_thread(), threadpool_limits(1), tempfile.TemporaryDirectory() as files:
        task, sites, rest = made_task(Path(files), split, data.file, WITHOUT_PRIVACY)
        task = replace(task, train=replace(task.train, learning_rate=task.train.learning_rate * factor))
        rows = rows_of(task, sites, rest)
        metric, value = next(iter(of_swarm(task, rows[0], answers(task, rows)).items()))
    return Validated(name, number, factor, task.train.learning_rate, metric, value)


def cut(split: Split, number: int) -> Split:
    """Return a split of the training rows alone: a fifth of each site's rows stands in for the test rows."""
    kept, rest = [], []
    for place, site in enumerate(split.sites):
        strata = site.y if site.is_classes else np.zeros(len(site))
        inside, outside = hold_out(strata, _SHARE, np.random.default_rng([_CUT, number, place]))
        kept.append(site.at(inside))
        rest.append(site.at(outside))
    return Split(tuple(kept), _joined(rest))


def _joined(parts: list[Table]) -> Table:
    return Split(tuple(parts), parts[0]).pooled
