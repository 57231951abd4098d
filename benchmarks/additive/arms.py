"""A fresh split of a public table among three sites, and the models that learn from it.

The splits are none of `benchmarks.defaults`, on which the additive model was designed. node.init writes the
schema from the first site's rows; the ranges of numbers are those of all rows, and count as public. Sites
learn in one process with a node's own code (scenarios.swarms), which adds up what secure sums would.
"""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from node.api.swarm import Swarm
from node.data.dataset import Dataset
from node.data.partition import even, hold_out
from node.jobs.exact_model import ExactTrainer
from node.system.errors import UserError
from node.task.data_schema import TableSchema
from node.task.load import read_task
from node.task.sections import ADDITIVE, Task
from node.training.build import build_model
from scenarios.data.tables import SETS, Table, TableSet, table
from scenarios.swarms.job_sums import run_job
from scenarios.swarms.steps import StepSwarm
from scenarios.tables.learning import rows_of
from scenarios.tables.proposal import propose_task
from scenarios.tables.rivals import fitted_answers
from scenarios.tables.sites import SITES, TARGET, Split, write

DELTA, HONEST = 1e-5, 1
TRAIN_ROWS = {"adult": 32_561, "loan": 0}
"""As many as Adult's own split has; 0: all but the test rows."""
_SPLIT, _HELD_OUT, _SHARE = 67, 71, 0.2  # streams of random numbers
_NO_ROWS = 1e-4  # of a site's rows are held back: all learn from the training rows

_Keys = dict[str, Any]


def fresh_split(data: TableSet, whole: Table, number: int) -> Split:
    """Return split `number`: `data.train` rows among the sites and `data.test` rows, or all there are."""
    rng = np.random.default_rng([_SPLIT, number])
    kept, held_out = hold_out(whole.y, _SHARE, rng)
    kept, held_out = rng.permutation(kept), rng.permutation(held_out)
    kept = kept[: data.train or len(kept)]
    parts = even(len(kept), SITES, rng)
    return Split(
        tuple(whole.at(kept[part]) for part in parts), whole.at(held_out[: data.test or len(held_out)])
    )


def without_test_rows(split: Split, number: int) -> Split:
    """Return a split whose test rows are a fifth of the training rows, which no site has any more."""
    rng = np.random.default_rng([_HELD_OUT, number])
    pooled = split.pooled_rows
    kept, held_out = hold_out(pooled.y, _SHARE, rng)
    parts = even(len(kept), SITES, rng)
    return Split(tuple(pooled.at(kept[part]) for part in parts), pooled.at(held_out))


@dataclass(frozen=True)
class Workplace:
    """A split, its files and the task that node.init wrote for the first site's, as TOML."""

    number: int
    split: Split
    files: Sequence[Path]
    test: Path
    table: _Keys

    def task(self, model: _Keys, *, epsilon: float | None) -> Task:
        """Return the task of a model; `epsilon` None: without privacy."""
        train: _Keys = {"loss": "bce", "metrics": ["auc"]}
        privacy: _Keys = {}
        if epsilon is not None:
            train |= {"expected_rows": len(self.split.pooled_rows)}
            mechanism = {"mechanism": "distributed-dp-sgd", "honest": HONEST}
            privacy = {**mechanism, "epsilon": epsilon, "delta": DELTA}
        return read_task(
            {
                "task": {"name": "fresh", "seed": self.number},
                "model": model,
                "data": self.table["data"] | {"test_fraction": _NO_ROWS},
                "train": train,
                "privacy": privacy,
            }
        )

    @cached_property
    def datasets(self) -> list[Dataset]:
        """Each site's rows, all with the same test rows."""
        task = self.task(self.linear, epsilon=None)
        return [replace(rows, validates=True) for rows in rows_of(task, self.files, self.test)]

    @property
    def additive(self) -> _Keys:
        """The section of the additive model."""
        return {"class": ADDITIVE}

    @property
    def curves(self) -> _Keys:
        """The same, without trees after its curves, which only exact sums learn."""
        return {"class": ADDITIVE, "args": {"trees": 0}}

    @property
    def linear(self) -> _Keys:
        """The section of the logistic model."""
        width = sum(column.width for column in self._schema.columns)
        return {"class": "node.models:Linear", "args": {"inputs": width, "outputs": 1}}

    @property
    def _schema(self) -> TableSchema:
        found = read_task(
            {"task": {"name": "fresh"}, "model": self.table["model"], "data": self.table["data"]}
        ).data.schema
        if not isinstance(found, TableSchema):
            raise TypeError("the schema of a table was expected")
        return found


def workplaces(
    name: str, folder: Path, numbers: Iterable[int], in_all: bool = True, held_out: bool = False
) -> Iterator[Workplace]:
    """Yield a workplace for each split of a data set, in a folder that goes with the next one.

    `in_all`: whether a split has TRAIN_ROWS and all test rows, or as many as those of `benchmarks.defaults`.
    `held_out`: whether its test rows are training rows. Raises UserError if node.init fails.
    """
    data = SETS[name]
    whole = table(name, folder)
    for number in numbers:
        of = replace(data, train=TRAIN_ROWS[name], test=0) if in_all else data
        split = fresh_split(of, whole, number)
        split = without_test_rows(split, number) if held_out else split
        with tempfile.TemporaryDirectory(prefix="additive-") as place:
            yield _written(Path(place), number, split, whole)


def _written(place: Path, number: int, split: Split, whole: Table) -> Workplace:
    files = [write(place, f"site{site}", "csv", rows) for site, rows in enumerate(split.sites)]
    test = write(place, "test", "csv", split.test)
    task = propose_task(files[0], place / "task.toml", "--target", TARGET, "--peers", str(SITES))
    found = tomllib.loads(task.read_text("utf-8"))
    for column in found["data"]["schema"]["columns"]:
        if column["kind"] == "number":
            values = whole.columns[column["name"]]
            column |= {"low": float(np.nanmin(values)), "high": float(np.nanmax(values))}
    return Workplace(number, split, files, test, found)


def private_auc(task: Task, datasets: Sequence[Dataset], seed: int) -> float:
    """Return the AUC of the test rows after all steps with noise."""
    swarm = StepSwarm(task, datasets, salt=seed)
    for number in range(1, task.train.rounds + 1):
        swarm.round(number)
    return swarm.evaluated().metrics["auc"] or 0.0


def exact_auc(task: Task, datasets: Sequence[Dataset]) -> float:
    """Return the AUC of the test rows by a model that exact sums make."""
    trainers = [ExactTrainer(task, build_model(task, data), data, 0) for data in datasets]
    run = run_job([trainer.job for trainer in trainers])
    return trainers[0].evaluate(run.base).metrics["auc"] or 0.0


def boosting_auc(split: Split) -> float:
    """Return the AUC of scikit-learn's HistGradientBoosting on the rows of all sites."""
    found = fitted_answers("boosting", split.pooled_rows, split.test, balanced=False)
    positive = sorted({*split.test.y.tolist()})[1]
    return float(roc_auc_score(split.test.y == positive, found[:, 1]))


def nodes_auc(task: Task, place: Workplace) -> float:
    """Return the AUC of the test rows by a model of real nodes on loopback. Raises UserError."""
    results = Swarm.local(SITES, task, list(place.files), alone="no").run()
    if not results.agreed:
        raise UserError("the nodes ended with different models")
    rows = place.datasets[0]
    return float(roc_auc_score(rows.test_y.numpy(), results.model(rows.test_x).detach().numpy().ravel()))
