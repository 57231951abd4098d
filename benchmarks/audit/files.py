"""Audits of whole files: a node's file with and without a row, or a person, by a task of node.init.

A node's own code reads the file, splits its rows, trains, adds noise, counts and sums up. Neighbours differ
in one line. It is as loud as the clip allows, and on the side whose figures are released. The planted fault
is a split that depends on all rows (node.data.partition.hold_out): with it, one line moves other lines to the
other side. These are the worst for the fault: all lines that move pull the same way. Where a person is the
unit, one person has six such lines, and the planted fault takes each line by itself.

The number of rows is public (docs/privacy.md), so a mean over the rows is multiplied by it. All rows are in
every step. With `dp-sgd` and smaller batches the number of rows decides how rarely each is sampled, so one
line more changes all others, which the promise does not cover.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count, islice
from pathlib import Path
from threading import Event
from typing import Literal

import numpy as np
import torch
from torch import nn

from benchmarks.audit.case import DELTA, Case, Claim
from benchmarks.audit.offers import EXACT, TOGETHER
from mechanisms.accounting.ledger import Ledger, Unit, privacy_spent
from mechanisms.audits.audit import Array, Pair, Release
from mechanisms.mechanism import Mechanism
from mechanisms.noise.randomness import SystemWords
from mechanisms.record_sums import record_sums
from mechanisms.units import ONE_PERSON, ONE_RECORD
from mechanisms.updates.distributed import DistributedDP
from node.agree.survey import survey
from node.data import partition
from node.data.dataset import Dataset, load_dataset
from node.data.sides import Draws, RowDraws, Split, held_back
from node.data.sources import drawing_of
from node.jobs.steps import StepTrainer
from node.runtime.contributions.learning import Learning, make_learning, make_swarm_metric
from node.runtime.contributions.metric_of_all import RingWords
from node.runtime.privacy.budget import make_mechanism, noise_of_counts
from node.system.system import System
from node.task.agreed_sums import norm
from node.task.load import load_task
from node.task.sections import Task
from node.training.build import build_model
from node.training.trainer import Trainer, shapes
from scenarios.tables.proposal import propose_task

EPSILONS = (1.0, 3.0)
SPLIT_OF_BEFORE, EACH_ROW = "the split of before", "each row by itself"
_ROWS, _FRACTION, _HONEST = 120, 0.2, 2
_ROWS_OF_ONE = 6
_RADIUS = 0.5
"""Less than the norm of every row's first gradient, so that each is clipped to it."""
_FAST, _SLOW, _SLOWER, _QUICK, _QUIET_RUNS = 20_000, 2_000, 400, 300, 20
_NO_NOISE = 1e6
"""An epsilon at which noise is next to nothing."""

_DP_SGD, _SHARED = "file, dp-sgd", "file, distributed-dp-sgd"
_COUNTS, _AGREEMENT = "file, counts", "file, sums of node.agree"
_OF_PERSONS = ", persons"

Side = Literal["train", "test"]
Row = tuple[str, ...]
Runs = Callable[[], Array]
"""Makes a node's release (k,) once."""


@dataclass(frozen=True)
class Read:
    """How a node reads its file: by which split, and whether rows belong to persons."""

    split: Split = Split.ROW
    by_person: bool = False

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings of the task that say so."""
        return ("data.person=who",) if self.by_person else ()


@dataclass(frozen=True)
class Promise:
    """What is promised of a file: its unit, how a node reads it, and how a node with a planted fault does."""

    unit: Unit
    persons: bool
    sound: Read
    fault: str
    faulty: Read


OF_ROWS = Promise(ONE_RECORD, False, Read(), SPLIT_OF_BEFORE, Read(Split.BEFORE))
OF_PERSONS = Promise(ONE_PERSON, True, Read(by_person=True), EACH_ROW, Read())


# -- two files that differ in a line -----------------------------------------------------------------------


@cache
def _write_files(side: Side, persons: bool) -> tuple[Path, Path]:
    """Write a file without the loud line, or person, and one with it, on `side`. Return both paths."""
    folder = Path(tempfile.mkdtemp(prefix="audit-"))
    found = folder / "without.csv", folder / "with.csv"
    header: Row = ("group", "note", "outcome")
    others, loud = _other_rows(), [next(_loud_rows(side, ()))]
    if persons:
        header = (*header, "who")
        others = [(*row, f"p{number // 2}") for number, row in enumerate(others)]
        loud = _loud_person(side)
    for path, more in zip(found, ([], loud), strict=True):
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *others, *more])
    return found


def _other_rows() -> list[Row]:
    """Return the rows of both files. They are the worst for the planted fault, the split of before.

    A row has the group of its label if that split holds it back once there is one row more. All others have
    the other group, and pull the other way.
    """
    labels = np.arange(_ROWS) % 2
    _, held = partition.hold_out(np.append(labels, 0), _FRACTION, np.random.default_rng([0, 1]))
    groups = np.where(np.isin(np.arange(_ROWS), held), labels, 1 - labels)
    return [
        ("ab"[group], f"n{number}", ("no", "yes")[label])
        for number, (group, label) in enumerate(zip(groups.tolist(), labels.tolist(), strict=True))
    ]


def _loud_person(side: Side) -> list[Row]:
    """Return the rows of one person on this side. By itself, each row would be on this side, too."""
    names = (f"loud{number}" for number in count())
    name = next(name for name in names if _is_on(side, RowDraws(0).of_persons([name])))
    return list(islice(_loud_rows(side, (name,)), _ROWS_OF_ONE))


def _loud_rows(side: Side, more: Row) -> Iterator[Row]:
    """Yield rows with the group of their label, which the task's seed puts on this side."""
    for number in count():
        row = ("a", f"loud{number}", "no", *more)
        cells = dict(zip(("group", "note", "outcome", "who"), row, strict=False))
        in_order = [([cells[name]], np.zeros(1, np.int64)) for name in sorted(cells)]
        if _is_on(side, RowDraws(0).of_columns(in_order, "utf-8")):
            yield row


def _is_on(side: Side, draws: Draws) -> bool:
    return bool(held_back(draws, _FRACTION)[0]) is (side == "test")


@cache
def _write_task(*options: str) -> Path:
    """Return the task that node.init writes for the file without the line."""
    data, _ = _write_files("train", False)
    path = data.with_name(f"{'-'.join(options).replace('-', '')}.toml")
    return propose_task(data, path, "--target=outcome", "--model=linear", "--leave-out=note", *options)


# -- what a node makes of a file ---------------------------------------------------------------------------


def _prepare_node(task: Task, path: Path, read: Read) -> tuple[Dataset, nn.Module, Mechanism]:
    """Return a node's rows, model and mechanism, made by its own code."""
    dataset = load_dataset(task, path, None, read.split)
    model = build_model(task, dataset)
    return dataset, model, make_mechanism(task, shapes(model, task.train.parameters), dataset.units)


def _prepare_learning(task: Task, path: Path, read: Read, seed: int) -> tuple[Learning[Trainer], int]:
    """Return a node's learning, made by its own code with random words of `seed`, and its number of units."""
    dataset, model, mechanism = _prepare_node(task, path, read)
    system = System(entropy=np.random.default_rng(seed).bytes)
    return make_learning(task, model, dataset, seed, mechanism, system), dataset.units


def _cases(
    name: str,
    epsilon: float,
    side: Side,
    trials: int,
    claim: Claim,
    promise: Promise,
    runs_of: Callable[[float, Path, Read, int], Runs],
) -> list[Case]:
    """Return the audit of what is promised, and that of the planted fault, which must be refuted.

    `runs_of(epsilon, file, read, seed)` prepares a node's runs.
    """
    files = _write_files(side, promise.persons)

    def case(read: Read, fault: str) -> Case:
        noised = [runs_of(epsilon, path, read, 1 + place) for place, path in enumerate(files)]
        clear = [runs_of(_NO_NOISE, path, read, 3) for path in files]
        means = [np.mean([runs() for _ in range(_QUIET_RUNS)], axis=0) for runs in clear]
        return Case(
            mechanism=f"{_case_name(name, promise)}, epsilon {epsilon:g}",
            fault=fault,
            release=_release_of(noised),
            pair=Pair(np.zeros(1), np.ones(1), means[0], means[1]),
            claim=claim,
            trials=trials,
            quick_trials=_QUICK,
        )

    return [case(promise.sound, ""), replace(case(promise.faulty, promise.fault), trials=_QUICK)]


def _case_name(name: str, promise: Promise) -> str:
    return f"{name}{_OF_PERSONS if promise.persons else ''}"


def _release_of(runs: Sequence[Runs]) -> Release:
    """Return a release (n, k) for inputs (n, 1): 0 is the file without the line, 1 the one with it."""
    return lambda inputs, _: np.stack([runs[int(one)]() for one in inputs[:, 0]])


def _gradient_cases(promise: Promise, epsilon: float) -> list[Case]:
    """`dp-sgd`: the model after a round of one step on all rows."""

    def runs_of(asked: float, path: Path, read: Read, seed: int) -> Runs:
        task = _dp_sgd_task(asked, *read.settings)
        learning, rows = _prepare_learning(task, path, read, seed)
        trainer, start = learning.trainer, learning.trainer.vector()
        return lambda: (start - trainer.train(start, 1, Event()).vector).astype(np.float64) * rows

    released = "the model after a round of one step, all rows"
    claim = Claim(epsilon, DELTA, promise.unit.words, released, EXACT)
    return _cases(_DP_SGD, epsilon, "train", _SLOW, claim, promise, runs_of)


def _dp_sgd_task(epsilon: float, *more: str) -> Task:
    settings = (
        *(f"privacy.epsilon={epsilon}", f"privacy.delta={DELTA}", f"privacy.clipping_radius={_RADIUS}"),
        *("train.rounds=1", "train.epochs=1", f"train.batch_size={10 * _ROWS}", "train.optimizer=sgd"),
        *("train.learning_rate=1.0", "train.momentum=0.0", "train.schedule=constant"),
    )
    return load_task(str(_write_task("--privacy=dp-sgd")), [*settings, *more])


def _shared_cases(promise: Promise, epsilon: float) -> list[Case]:
    """`distributed-dp-sgd`: the sums of a step and of all attempts in its budget, of honest members."""
    others = _write_files("train", promise.persons)[0]

    def runs_of(asked: float, path: Path, read: Read, seed: int) -> Runs:
        settings = (
            *read.settings,
            *(f"privacy.epsilon={asked}", f"privacy.delta={DELTA}", f"privacy.clipping_radius={_RADIUS}"),
            *(f"privacy.honest={_HONEST}", "privacy.sampling_probability=1.0", "train.steps=1"),
            *(f"train.expected_batch={4.0 * _ROWS}", f"train.expected_rows={4 * _ROWS}"),
            *("train.report_every=1", "train.momentum=0.0", "aggregation.min_participants=3"),
        )
        task = load_task(str(_write_task("--privacy=distributed-dp-sgd", "--peers=3")), settings)
        files = (path, *[others] * _HONEST)
        members = [
            _prepare_learning(task, file, read, 10 * seed + place)[0] for place, file in enumerate(files)
        ]
        trainers = [learning.trainer for learning in members]
        _, _, mechanism = _prepare_node(task, path, read)
        assert isinstance(mechanism, DistributedDP)
        rule, base = mechanism.shared, trainers[0].vector()

        def step() -> Array:
            words = [one.contribution(base, 0).words for one in trainers if isinstance(one, StepTrainer)]
            return rule.decode(np.sum(words, axis=0, dtype=np.uint32))

        return lambda: np.concatenate([step() for _ in range(rule.steps)])

    released = f"the sums of a step and of what may fail, if {_HONEST} others are honest"
    claim = Claim(epsilon, DELTA, promise.unit.words, released, TOGETHER)
    return _cases(_SHARED, epsilon, "train", _SLOWER, claim, promise, runs_of)


def _count_cases(promise: Promise, epsilon: float) -> list[Case]:
    """Counts for a metric of all rows, of a model that answers by the group. The node adds all noise."""
    more = (
        "aggregation.swarm_metric=confusion",
        "aggregation.swarm_metric_every=1",
        "privacy.metric_share=0.5",
    )

    def runs_of(asked: float, path: Path, read: Read, seed: int) -> Runs:
        task = _dp_sgd_task(min(_NO_NOISE, 2 * asked), *more, *read.settings)
        dataset, _, mechanism = _prepare_node(task, path, read)
        learning, _ = _prepare_learning(task, path, read, seed)
        entropy = np.random.default_rng(seed).bytes
        metric = make_swarm_metric(task, learning.trainer, dataset, mechanism, None, entropy)
        by_group = torch.zeros(2, dataset.train_x.shape[1])
        by_group[0, 0] = by_group[1, 1] = 1.0
        vector = np.concatenate([by_group.flatten().numpy(), np.zeros(2, np.float32)])
        size = metric.slots - 1

        def count_rows() -> Array:
            total = RingWords(size).total(metric.words(vector, 0), 1)
            assert total is not None
            return total.units

        return count_rows

    noise = noise_of_counts(make_mechanism(_dp_sgd_task(2 * epsilon, *more), [("w", (1,))], _ROWS))
    assert noise is not None
    cost = privacy_spent(Ledger.of((noise.event,)), DELTA).epsilon
    claim = Claim(cost, DELTA, promise.unit.words, "the counts of one offer", EXACT)
    return _cases(_COUNTS, epsilon, "test", _SLOW, claim, promise, runs_of)


def _agreement_cases(promise: Promise, epsilon: float) -> list[Case]:
    """The sums of `node.agree`, which has no split: all rows count."""
    task = load_task(str(_write_task("--privacy=dp-sgd", "--agree")), promise.sound.settings)
    schema = task.data.schema
    assert schema is not None
    mechanism = record_sums(epsilon, DELTA, releases=1, record_norm=norm(schema))
    words = SystemWords(np.random.default_rng(1).bytes)
    released = "all counts and sums of an agreement, once"

    def case(drawing: RowDraws | None, fault: str) -> Case:
        sums = [
            survey(path, schema, mechanism.unit, task.agreement.records, drawing=drawing)
            for path in _write_files("train", promise.persons)
        ]
        means = [np.multiply(of, mechanism.unit, dtype=np.float64) for of in sums]
        return Case(
            mechanism=f"{_case_name(_AGREEMENT, promise)}, epsilon {epsilon:g}",
            fault=fault,
            release=_release_of([partial(mechanism.release, of, words) for of in sums]),
            pair=Pair(np.zeros(1), np.ones(1), means[0], means[1]),
            claim=Claim(epsilon, DELTA, promise.unit.words, released, EXACT),
            trials=_QUICK if fault else _FAST,
            quick_trials=_QUICK,
        )

    if not promise.persons:
        return [case(None, "")]
    return [case(drawing_of(task), ""), case(None, promise.fault)]


FILE_AUDITS: Mapping[str, Callable[[float], list[Case]]] = {
    _case_name(name, promise): partial(cases, promise)
    for promise in (OF_ROWS, OF_PERSONS)
    for name, cases in (
        (_DP_SGD, _gradient_cases),
        (_SHARED, _shared_cases),
        (_COUNTS, _count_cases),
        (_AGREEMENT, _agreement_cases),
    )
}
"""The audits of each mechanism at an epsilon: a sound one, and planted faults if there are any."""
