"""A wide table at epsilon 3, with scales from one site's means, from public ranges, and from an agreement.

Five sites learn from 396 columns. The noise of an agreement would drown so many sums: `node.init --agree`
says so and proposes public ranges. Sites that agree nevertheless lose the epsilon of the agreement. Its sums
and noise are those of a node; this process adds them up exactly. One process takes the steps of all sites, as
in `benchmarks.rates.simulation`.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.rates.simulation import final_average, trainer_of_all
from benchmarks.spec import Scores
from mechanisms.noise.randomness import SeededWords
from mechanisms.record_sums import RecordSums
from node.agree.outcome import Totals, agreed, schema_of
from node.agree.survey import survey
from node.data.dataset import Dataset, own_rows
from node.data.sources import read_source
from node.task.agreement_noise import noise_in_sum, noise_of
from node.task.load import load_task
from node.task.sections import Task
from scenarios.study.threads import one_thread
from scenarios.tables.proposal import propose_task

Numbers = NDArray[np.float64]

_SITES, _ROWS, _TEST_ROWS, _SEED = 5, 1000, 4000, 37
_NUMBERS, _CATEGORIES, _FACTORS, _SPREAD = 300, 96, 12, 4.6
_STEPS, _WORDS = (-1.3, -0.4, 0.4, 1.3), ("none", "low", "mean", "high", "top")


@dataclass(frozen=True)
class _Clinic:
    """A source of rows: hidden factors move the numbers, the words, and the odds of being ill."""

    loadings: Numbers
    odds: Numbers
    scales: Numbers

    @classmethod
    def draw(cls, rng: np.random.Generator) -> _Clinic:
        loadings = rng.normal(size=(_FACTORS, _NUMBERS + _CATEGORIES)) / np.sqrt(_FACTORS)
        odds = rng.normal(size=_FACTORS)
        return cls(loadings, _SPREAD * odds / np.linalg.norm(odds), np.exp(rng.normal(0, 1.5, _NUMBERS)))

    def write(self, path: Path, rows: int, rng: np.random.Generator) -> Path:
        """Write so many rows to a CSV file at `path`; return `path`."""
        factors = rng.normal(size=(rows, _FACTORS))
        values = factors @ self.loadings + 0.7 * rng.normal(size=(rows, self.loadings.shape[1]))
        numbers = np.exp(0.5 * values[:, :_NUMBERS]) * self.scales
        places = np.digitize(values[:, _NUMBERS:], _STEPS)
        ill = rng.random(rows) < 1 / (1 + np.exp(-(factors @ self.odds)))
        with path.open("w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow([*(f"c{column}" for column in range(values.shape[1])), "ill"])
            for number, place, answer in zip(numbers, places, ill, strict=True):
                words = (*(_WORDS[one] for one in place), "yes" if answer else "no")
                out.writerow([*(f"{one:.4g}" for one in number), *words])
        return path


def wide_scores(number: int) -> Scores:
    """Return the AUC of new rows by kind of scales, and without privacy; the agreement's rows and doubt."""
    rng = np.random.default_rng([_SEED, number])
    clinic = _Clinic.draw(rng)
    with one_thread(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [clinic.write(folder / f"site{site}.csv", _ROWS, rng) for site in range(_SITES)]
        test = clinic.write(folder / "test.csv", _TEST_ROWS, rng)
        means, ranges = (_task(files[0], folder, number, *options) for options in ((), ("--agree",)))
        found = _totals(ranges, files, number)
        tasks = {"means": means, "ranges": ranges, "agreed": agreed(ranges, found).task}
        scores = {f"auc {arm}": _private_auc(task, files, test) for arm, task in tasks.items()}
        plain = {"auc without privacy": _plain_auc(_all_rows(means, files, test))}
        return {**scores, **plain, "rows counted": float(found.sums[0]), "doubt": found.doubt}


def _task(data: Path, folder: Path, seed: int, *options: str) -> Task:
    out = folder / f"task{len(options)}.toml"
    propose_task(data, out, f"--peers={_SITES}", "--epsilon=3", "--target=ill", "--model=mlp", *options)
    return load_task(str(out), [f"task.seed={seed}"])


def _totals(task: Task, files: Sequence[Path], seed: int) -> Totals:
    schema, noise = schema_of(task), noise_of(task, schema_of(task))
    if not isinstance(noise, RecordSums):
        raise TypeError(f"the agreement has no noise: {noise.name}")
    words = SeededWords(np.random.default_rng([_SEED, seed, 1]))
    sums = [noise.release(survey(path, schema, noise.unit, task.agreement.records), words) for path in files]
    return Totals(np.sum(sums, axis=0), noise_in_sum(noise, len(files)), len(files))


def _private_auc(task: Task, files: Sequence[Path], test: Path) -> float:
    dataset = _all_rows(task, files, test)
    rows = len(dataset.train_y)
    takes_all = task.train.expected_batch == task.train.expected_rows
    batch = float(rows) if takes_all else task.train.expected_batch  # a sum has no room for more
    task = replace(task, train=replace(task.train, expected_rows=rows, expected_batch=batch))
    words = SeededWords(np.random.default_rng([_SEED, task.task.seed, 2]))
    trainer = trainer_of_all(task, dataset, _SITES, words)
    return float(trainer.evaluate(final_average(trainer, task)).metrics["auc"] or 0.0)


def _all_rows(task: Task, files: Sequence[Path], test: Path) -> Dataset:
    own, new = [own_rows(read_source(path, task), task) for path in files], read_source(test, task)
    return replace(
        own[0],
        train_x=torch.cat([one.train_x for one in own]),
        train_y=torch.cat([one.train_y for one in own]),
        test_x=torch.from_numpy(new.x),
        test_y=torch.from_numpy(new.y),
        accuracy_name="test",
    )


def _plain_auc(rows: Dataset) -> float:
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=1000))
    answers = model.fit(rows.train_x.numpy(), rows.train_y.numpy()).predict_proba(rows.test_x.numpy())
    return float(roc_auc_score(rows.test_y.numpy(), answers[:, 1]))
