"""A table, a model and who learns it, as a cell of a sweep.

    data set ──▶ three sites' files and test rows ──▶ node.init ──▶ rows as nodes read them ──▶ model

A seed is a split of the rows. All arms of a seed have the columns that the first site's file shows, and the
public ranges of a codebook: those of the whole data set.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal

import torch

from node.data.dataset import Dataset
from node.system.errors import ConfigError
from scenarios.data import sources
from scenarios.data.tables import SETS, Table, table
from scenarios.frame.digests import salt_of
from scenarios.study.cells import METRIC, NO_EPSILON, Fact, Outcome, Room
from scenarios.study.threads import one_thread
from scenarios.tables.fixed import FixedCell
from scenarios.tables.models import ModelName, learn, learn_privately
from scenarios.tables.prepared import Sites, prepare
from scenarios.tables.rivals import boosting_figure
from scenarios.tables.sites import split_of

Parties = Literal["swarm", "alone", "pooled"]
"""All three sites with a part each, the first of them, or one party with the rows of all."""
Learner = Literal[ModelName, "boosting"]
"""A model of the product, or scikit-learn's gradient boosting, which sees all rows that it is given."""
ROWS = "training rows"
"""The name of a fact."""
_PROPOSED: Mapping[ModelName, str] = {
    "linear": "linear",
    "network": "mlp",
    "additive": "additive",
    "trees": "trees",
    "additive-trees": "additive",
}
"""What node.init is asked for."""


@dataclass(frozen=True)
class TableCell(FixedCell):
    """One arm with one seed. `rows`: a name in `SETS`; `epsilon`: of the whole run, None without privacy.

    The figure is the AUC of the test rows, or R^2 for numbers.
    """

    arm: str
    rows: str
    learner: Learner
    parties: Parties
    epsilon: float | None = None
    seed: int = 0
    kind: ClassVar[str] = "table"

    def check(self, room: Room) -> None:
        """Raise ConfigError if the data set is missing or damaged."""
        read_table(self.rows, room.data_dir)

    def replay(self, room: Room) -> Outcome:
        """Learn and evaluate in this process. Raises UserError."""
        begun = time.perf_counter()
        with one_thread():
            learn_it = self._rival if self.learner == "boosting" else self._learnt
            found, facts = learn_it(room.data_dir)
        room.say(1, found)
        is_classes = read_table(self.rows, room.data_dir).is_classes
        facts[METRIC] = "auc" if is_classes else "r2"
        return Outcome((found,), facts, time.perf_counter() - begun)

    def _rival(self, folder: Path) -> tuple[float, dict[str, Fact]]:
        split = split_of(SETS[self.rows], read_table(self.rows, folder), self.seed)
        given = split.sites[0] if self.parties == "alone" else split.pooled_rows
        facts = {**NO_EPSILON, "protects": "nothing: one party sees all rows", ROWS: len(given)}
        return boosting_figure(given, split.test), facts

    def _learnt(self, folder: Path) -> tuple[float, dict[str, Fact]]:
        name = self.learner
        if name == "boosting":
            raise ValueError("a rival is no model of the product")
        sites = prepare_sites(self.rows, self.seed, _PROPOSED[name], folder)
        rows = {"alone": sites.rows[:1], "pooled": [_joined(sites.rows)], "swarm": sites.rows}[self.parties]
        salt = salt_of(self.arm)
        if self.epsilon is None:
            found = learn(name, sites.task, rows, salt)
        elif name == "linear" or name == "additive":
            found = learn_privately(name, self.epsilon, sites.task, rows, salt)
        else:
            raise ValueError(f"{name} has no privacy")
        return sites.figure(found.model), {**found.facts, ROWS: sum(len(each.train_y) for each in rows)}


@lru_cache(maxsize=1)
def prepare_sites(name: str, seed: int, model: str, folder: Path) -> Sites:
    """Let node.init propose a task for a `model` of a split, and read all files by it. Raises UserError."""
    whole = read_table(name, folder)
    split = split_of(SETS[name], whole, seed)
    with tempfile.TemporaryDirectory() as files:
        return prepare(Path(files), split, whole, SETS[name].file, model, seed)


def read_table(name: str, folder: Path) -> Table:
    """The rows of a data set in `SETS`. Raises ConfigError for missing or damaged files."""
    try:
        return table(name, folder)
    except (OSError, EOFError, ValueError) as error:
        advice = f"; {sources.source(name).advice(folder)}" if name in sources.SOURCES else ""
        raise ConfigError(f"data set {name}: {error}{advice}") from None


def _joined(rows: list[Dataset]) -> Dataset:
    """One party with the rows of all."""
    train_x, train_y, test_x, test_y = (
        torch.cat([getattr(each, name) for each in rows])
        for name in ("train_x", "train_y", "test_x", "test_y")
    )
    return replace(rows[0], train_x=train_x, train_y=train_y, test_x=test_x, test_y=test_y)
