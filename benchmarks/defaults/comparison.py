"""Compares a swarm with the defaults and scikit-learn: on one split, and over many splits."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score
from threadpoolctl import threadpool_limits

from benchmarks.spec import Scores
from node.data.dataset import Dataset
from node.init.loss_choice import RARE
from node.task.data_schema import ClassTarget
from node.task.sections import Task
from scenarios.data.tables import SETS, table
from scenarios.study.threads import one_thread
from scenarios.tables.learning import answers, answers_of_nodes, prepare_split, rows_of
from scenarios.tables.rivals import NAMES, Kind, fitted_answers
from scenarios.tables.sites import Split, split_of

POINTS = 0.02
"""How far a swarm may be below scikit-learn; two standard errors if they are more."""
WITHOUT_PRIVACY = ("--privacy", "none", "--come-and-go", "yes")


@dataclass(frozen=True)
class Found:
    """One split: the scores of the swarm, with its `model` and `training`, and of scikit-learn's `beside`."""

    name: str
    split: int
    model: str
    training: str
    beside: str
    swarm: Scores
    reference: Scores
    train_rows: int
    test_rows: int
    swarm_s: float
    reference_s: float


def compare_split(name: str, number: int, folder: Path) -> Found:
    """Compare both on split `number` of a data set. Raises UserError if node.init or training fails."""
    data = SETS[name]
    whole = table(name, folder)
    split = split_of(data, whole, number)
    with one_thread(), threadpool_limits(1), tempfile.TemporaryDirectory() as files:
        begun = time.perf_counter()
        task, sites, test = prepare_split(Path(files), split, data.file, WITHOUT_PRIVACY)
        rows = rows_of(task, sites, test)
        swarm = swarm_scores(task, rows[0], answers(task, rows))
        middle = time.perf_counter()
        kind: Kind = "linear" if task.model.cls == "node.models:Linear" else "boosting"
        reference = reference_scores(kind, split)
    return Found(
        name=name,
        split=number,
        model=task.model.cls.rpartition(":")[2],
        training=training_text(task),
        beside=NAMES[kind, whole.is_classes],
        swarm=swarm,
        reference=reference,
        train_rows=sum(map(len, split.sites)),
        test_rows=len(split.test),
        swarm_s=middle - begun,
        reference_s=time.perf_counter() - middle,
    )


def training_text(task: Task) -> str:
    """Return the optimiser, rate, rounds, batch and loss of a task as text."""
    train = task.train
    return (
        f"{train.optimizer} {train.learning_rate:g} {train.schedule}, {train.rounds} x {train.epochs} "
        f"epochs, batch {train.batch_size}, loss {train.loss}"
    )


def node_scores(name: str, number: int, folder: Path) -> Scores:
    """Return the scores of three real nodes on split `number` of a data set. Raises UserError."""
    data = SETS[name]
    split = split_of(data, table(name, folder), number)
    with one_thread(), tempfile.TemporaryDirectory() as files:
        task, sites, test = prepare_split(Path(files), split, data.file, WITHOUT_PRIVACY)
        first = rows_of(task, sites, test)[0]
        return swarm_scores(task, first, answers_of_nodes(task, sites, first))


def swarm_scores(task: Task, dataset: Dataset, found: NDArray[np.float64]) -> Scores:
    """Return the scores of a swarm's answers for the test rows of `dataset`."""
    wanted = dataset.test_y.numpy()  # images are not read in the order in which they were written
    match task.data.schema:
        case None:
            raise ValueError("node.init writes a schema")
        case schema if isinstance(schema.target, ClassTarget):
            names = np.array(schema.target.values)
            return class_scores(names[wanted], found, names)
        case _:
            return {"r2": float(r2_score(wanted, found))}


def reference_scores(kind: Kind, split: Split) -> Scores:
    """Return the scores of scikit-learn's model.

    If both AUC and balanced accuracy count, the latter is that of a second model, which weighs classes the
    same.
    """
    pooled_rows, test = split.pooled_rows, split.test
    plain = fitted_answers(kind, pooled_rows, test, balanced=False)
    if not test.is_classes:
        return {"r2": float(r2_score(test.y, plain))}
    names = np.unique(pooled_rows.y)
    found = class_scores(test.y, plain, names)
    if len(found) == 1:
        return found
    weighed = fitted_answers(kind, pooled_rows, test, balanced=True)
    return {**class_scores(test.y, weighed, names), "auc": found["auc"]}


def class_scores(
    wanted: NDArray[np.generic], chances: NDArray[np.float64], names: NDArray[np.generic]
) -> Scores:
    """Return the scores of probabilities (n, k) of the classes `names`; `wanted` (n,): the right ones.

    For two classes it is the AUC, and balanced accuracy if one class is rare; for more, balanced accuracy.
    """
    balanced = {"balanced-accuracy": float(balanced_accuracy_score(wanted, names[chances.argmax(axis=1)]))}
    if len(names) > 2:
        return balanced
    auc = {"auc": float(roc_auc_score(wanted == names[1], chances[:, 1]))}
    _, counts = np.unique(wanted, return_counts=True)
    return auc | balanced if counts.max() > RARE * len(wanted) else auc


@dataclass(frozen=True)
class Verdict:
    """The mean of a metric over all splits, and the standard error of the paired differences."""

    metric: str
    swarm: float
    reference: float
    standard_error: float

    @property
    def difference(self) -> float:
        """The swarm's mean minus scikit-learn's."""
        return self.swarm - self.reference

    @property
    def allowed_shortfall(self) -> float:
        """How far the swarm may be below scikit-learn."""
        return max(POINTS, 2 * self.standard_error)

    @property
    def holds(self) -> bool:
        """Whether the shortfall is allowed."""
        return -self.difference <= self.allowed_shortfall


def verdicts(found: Sequence[Found]) -> list[Verdict]:
    """Return a verdict for each metric of the splits."""
    made = []
    for metric in found[0].reference:
        pairs = [(one.swarm[metric], one.reference[metric]) for one in found]
        differences = [swarm - reference for swarm, reference in pairs]
        error = stdev(differences) / sqrt(len(pairs)) if len(pairs) > 1 else 0.0
        swarm, reference = (mean(side) for side in zip(*pairs, strict=True))
        made.append(Verdict(metric, swarm, reference, error))
    return made
