"""Counts: how well swarms learn them with the loss of counts and with Huber's, beside models of all rows."""

from __future__ import annotations

import csv
import gzip
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import mean_poisson_deviance, r2_score

from benchmarks.spec import Scores
from node.task.data_schema import NumberTarget
from scenarios.data.tables import Table, TableSet
from scenarios.data.tabular import LOAN_FILE
from scenarios.study.threads import one_thread
from scenarios.tables.learning import prepare_split, rows_of, train_swarm
from scenarios.tables.rivals import Kind, fitted_answers
from scenarios.tables.sites import Split, split_of

Numbers = NDArray[np.float64]

_VISITS, _SEED = 4500, 23
_WARDS = ("Chirurgie", "Innere", "Neurologie", "Notaufnahme")
_NUMBERS = ("loan_amnt", "annual_inc", "delinq_2yrs", "inq_last_6mths", "open_acc", "pub_rec", "total_acc")
_WORDS = ("term", "emp_length", "home_ownership", "verification_status")
_TINY = 1e-9
_POOLED: dict[str, Kind] = {" pooled": "poisson", " boosting": "poisson boosting"}


def visits(_: Path) -> Table:
    """Return patients and their visits in a year: most have few, some very many, and most of it is chance."""
    rng = np.random.default_rng(_SEED)
    age, pain, sleep = rng.normal(size=(3, _VISITS))
    chronic, ward = rng.random(_VISITS) < 0.3, rng.integers(0, 4, _VISITS)
    logs = 0.9 + 0.2 * age + 0.2 * pain + 0.4 * chronic + np.array([0.0, 0.15, -0.2, 0.3])[ward]
    logs += 0.6 * (np.abs(sleep) - 0.8)  # no linear model sees this
    y = rng.poisson(np.exp(logs) * rng.gamma(1.2, 1 / 1.2, _VISITS)).astype(np.float64)
    numbers = {"age": (55 + 15 * age).round(), "pain": pain.round(3), "sleep": sleep.round(3)}
    return Table(y, {**numbers, "chronic": np.where(chronic, "yes", "no"), "ward": np.array(_WARDS)[ward]})


def loans(target: str, folder: Path) -> Table:
    """Return borrowers, and the count `target` of each."""
    with gzip.open(folder / LOAN_FILE, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    numbers = {name: np.array([float(row[name]) for row in rows]) for name in _NUMBERS}
    words = {name: np.array([row[name] for row in rows]) for name in _WORDS}
    return Table(numbers.pop(target), {**numbers, **words})


SETS = {
    "visits": TableSet("visits", visits),
    "open-accounts": TableSet("open-accounts", lambda path: loans("open_acc", path), train=9000, test=9000),
    "inquiries": TableSet("inquiries", lambda path: loans("inq_last_6mths", path), train=9000, test=9000),
}


def count_scores(name: str, folder: Path, number: int) -> Scores:
    """Return for each arm in split `number`: R2, mean Poisson deviance, and mean answer / mean count."""
    data = SETS[name]
    split = split_of(data, data.read(folder), number)
    kind = "auto" if name == "visits" else "count"  # node.init may take a count of few values for classes
    with one_thread():
        found = {"": _swarm_answers(split, kind, None), " huber": _swarm_answers(split, "number", "huber")}
    for arm, model in _POOLED.items():
        found[arm] = fitted_answers(model, split.pooled_rows, split.test, balanced=False)
    wanted = split.test.y.astype(np.float64)
    return {name: value for arm, of_arm in found.items() for name, value in _arm_scores(arm, of_arm, wanted)}


def _swarm_answers(split: Split, kind: str, loss: str | None) -> Numbers:
    """Return a swarm's answers (n,) for the test rows. `loss`: in place of the proposed one, or None."""
    with tempfile.TemporaryDirectory() as files:
        options = ("--privacy", "none", "--come-and-go", "yes", "--target-kind", kind)
        task, sites, test = prepare_split(Path(files), split, "csv", options)
        task = replace(task, train=replace(task.train, loss=loss or task.train.loss))
        swarm = train_swarm(task, rows_of(task, sites, test))
    target = None if task.data.schema is None else task.data.schema.target
    if not isinstance(target, NumberTarget):
        raise TypeError("the target is no number")
    answers: Numbers = swarm.answers()[0].reshape(-1).double().numpy() * target.std + target.mean
    return answers


def _arm_scores(arm: str, answers: Numbers, wanted: Numbers) -> Sequence[tuple[str, float]]:
    return (
        (f"r2{arm}", float(r2_score(wanted, answers))),
        (f"deviance{arm}", float(mean_poisson_deviance(wanted, np.maximum(answers, _TINY)))),
        (f"mean{arm}", float(answers.mean() / wanted.mean())),
    )
