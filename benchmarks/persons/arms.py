"""A generated clinic, the arms that learn from it, and their runs in one process.

Each person of the clinic has a risk, which no column shows. Each visit is a row, whose laboratory values
follow the risk. node.init writes the task. The steps are those of ten members that share noise, each of which
takes four others as honest (`benchmarks.rates.simulation`: one process stands for all). All arms hold back
the same persons. By composition, what is (e, d)-private for a row is (k e, k exp((k - 1) e) d)-private for k
rows of a person (Dwork & Roth 2014, Theorem 2.2, for delta above 0 by induction).
"""

from __future__ import annotations

import csv
import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from threading import Event

import numpy as np

from benchmarks.rates.simulation import trainer_of_all
from benchmarks.spec import Figure, figure
from mechanisms.noise.randomness import SeededWords
from node.data.dataset import load_dataset
from node.task.load import load_task
from node.training.build import build_model
from node.training.trainer import make_trainer
from scenarios.tables.proposal import propose_task

MEMBERS, EPSILON, DELTA = 10, 3.0, 1e-5
_MOST_ROWS, _LABS, _TIMED = 40, 6, 30
_CAPS = (1, 8, 40)


def write_clinic(path: Path, persons: int) -> None:
    """Write the visits of so many persons to `path`: 2 to 40 each, about 9 in the mean."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=_LABS)
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["patient", "age", *(f"lab{number}" for number in range(_LABS)), "relapse"])
        for person in range(persons):
            risk, age = rng.normal(), rng.normal(60, 12)
            for _ in range(min(_MOST_ROWS, 1 + rng.geometric(1 / 8))):
                labs = rng.normal(size=_LABS) + 0.5 * risk
                score = labs @ weights / 2 + risk + (age - 60) / 24 + 0.5 * labs[0] * labs[1]
                relapse = rng.random() < 1 / (1 + math.exp(-score))
                row = [f"P{person:05}", f"{age:.0f}", *(f"{lab:.3f}" for lab in labs)]
                out.writerow([*row, "yes" if relapse else "no"])


@dataclass(frozen=True)
class Arm:
    """What is promised to whom.

    `epsilon`: None without privacy. `rows`: the most rows of a person in use, None for all. `by_person`:
    whether a person is the unit, or each row by itself.
    """

    name: str
    epsilon: float | None
    delta: float
    rows: int | None
    by_person: bool


def arms() -> Iterator[Arm]:
    """Yield all arms, in the order of the table."""
    yield Arm("without privacy, all rows", None, DELTA, None, by_person=False)
    yield Arm("a row, epsilon 3 (of 40 rows no bound)", EPSILON, DELTA, None, by_person=False)
    for most in _CAPS:
        yield Arm(f"a person, epsilon 3, at most {most} rows", EPSILON, DELTA, most, by_person=True)
    for most in _CAPS[1:]:
        each = EPSILON / most
        delta = DELTA / (most * math.exp((most - 1) * each))
        yield Arm(f"a person, epsilon 3, by composition of {most} rows", each, delta, most, by_person=False)


def figures(persons: int, seeds: int) -> Iterator[Figure]:
    """Train each arm with each seed; yield the AUC of persons held back, and the time of a row of a step."""
    with tempfile.TemporaryDirectory() as folder:
        data, task = Path(folder) / "clinic.csv", Path(folder) / "clinic.toml"
        write_clinic(data, persons)
        propose_task(data, task, f"--peers={MEMBERS}", f"--epsilon={EPSILON}", "--model=mlp")
        case = f"{persons} persons, n={MEMBERS}"
        for arm in arms():
            found = [_outcome(arm, data, task, seed) for seed in range(seeds)]
            yield figure("persons", case, f"AUC, {arm.name}", "", [one.auc for one in found])
            if arm.epsilon is not None:
                per_row = [one.step_s / one.rows * 1e6 for one in found]
                yield figure("persons", case, f"a row of a step, {arm.name}", "us", per_row)


@dataclass(frozen=True)
class Outcome:
    """The AUC of the persons held back, the median seconds of a step, and its expected rows."""

    auc: float
    step_s: float
    rows: float


def _outcome(arm: Arm, data: Path, path: Path, seed: int) -> Outcome:
    settings = [f"task.seed={seed}", f"privacy.rows_per_person={arm.rows or 1024}"]
    dataset = load_dataset(load_task(str(path), settings), data, None)
    if arm.epsilon is None:
        plain = [f"task.seed={seed}", "privacy.mechanism=none", "train.rounds=1", "train.epochs=20"]
        task = load_task(str(path), plain)
        trainer = make_trainer(task, build_model(task, dataset), dataset, seed, None)
        trained = trainer.train(trainer.vector(), 1, Event()).vector
        return Outcome(trainer.evaluate(trained).metrics["auc"] or 0.0, 0.0, 0.0)
    dataset = dataset if arm.by_person else replace(dataset, persons=None)
    more = [
        f"train.expected_rows={dataset.units}",
        f"privacy.epsilon={arm.epsilon}",
        f"privacy.delta={arm.delta}",
    ]
    task = load_task(str(path), [*settings, *more])
    steps = trainer_of_all(task, dataset, MEMBERS, SeededWords(np.random.default_rng([seed, 3])))
    base, seconds = steps.vector(), []
    for generation in range(task.train.steps or 0):
        begun = time.perf_counter()
        contributed = steps.contribution(base, generation)
        seconds.append(time.perf_counter() - begun)
        base = steps.following(base, generation, contributed.words)
    rows = (task.privacy.sampling_probability or 0.0) * len(dataset.train_y)
    return Outcome(steps.evaluate(base).metrics["auc"] or 0.0, median(seconds[-_TIMED:]), rows)
