"""A node's rows: its part of a common data set, or its own data.

Of its own data each row, or person, alone is trained on or held back (node.data.sides). Parts of a common
data set share test rows, so that all peers measure alike; these are public rows, which no promise covers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from node.data import partition
from node.data.in_memory import FrameRows, InMemory
from node.data.persons import chosen_rows, renumbered
from node.data.report import TOO_FEW, Report
from node.data.rows import Rows
from node.data.sides import Split, held_back
from node.data.sources import drawing_of, read_source, rows_in_memory
from node.system.errors import ConfigError, counted, one_line, shown
from node.task.data_schema import ClassTarget, NumberTarget, Schema
from node.task.sections import BUILT_IN_SOURCES, Task

_LABEL_SKEW = 0.5  # the Dirichlet parameter of the partition into shards
_SMALLEST_PART = 8  # rows
_SPLIT, _PARTITION = 1, 2  # streams of random numbers under task.seed


@dataclass(frozen=True)
class OfPersons:
    """Whose rows they are: `train` (n,) and `test` (m,) int64, numbers from 0; at most `most` rows of each.

    `most` is None where rows of a person are not taken together.
    """

    train: torch.Tensor
    test: torch.Tensor
    most: int | None

    @property
    def count(self) -> int:
        """How many persons have rows to train on."""
        return int(self.train.max()) + 1


@dataclass(frozen=True)
class Dataset:
    """The rows of one node, as tensors on the CPU.

    `train_x` and `test_x` are float32 (n, ...). With `classes` the targets are int64 (n,) in 0..classes-1,
    otherwise float32 (n,) for regression. `accuracy_name` says what the test rows are: the swarm's common
    "test" rows, or a "validation" part of the node's own. `description` describes the data in one line.
    `validates` says whether the test rows are enough for a figure. `class_names` are those of a schema,
    `unit` is the standard deviation by which it scales numeric targets. `persons` says whose rows they are,
    where a task names a column for that.
    """

    train_x: torch.Tensor
    train_y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor
    accuracy_name: Literal["test", "validation"]
    classes: int | None
    description: str
    class_names: tuple[str, ...] = ()
    unit: float = 1.0
    validates: bool = True
    persons: OfPersons | None = None

    def having(self, rows: torch.Tensor) -> Dataset:
        """Returns the data set with some of its rows (k,) to train on."""
        of = self.persons
        if of is not None:
            of = replace(of, train=torch.from_numpy(renumbered(of.train[rows].numpy())))
        return replace(self, train_x=self.train_x[rows], train_y=self.train_y[rows], persons=of)

    @property
    def together(self) -> OfPersons | None:
        """Whose rows they are, where a person's rows are taken together; None: each row is by itself."""
        return None if self.persons is None or self.persons.most is None else self.persons

    @property
    def units(self) -> int:
        """How many rows there are to train on, or persons, where their rows are taken together."""
        return len(self.train_y) if self.together is None else self.together.count


def load_dataset(
    task: Task, data: Path | InMemory | None, shard: tuple[int, int] | None, split: Split = Split.ROW
) -> Dataset:
    """Loads the rows that this node trains on.

    `shard` (part, parts) selects a part of the task's data; `data` is the node's own file or rows. Without
    both, data.source is the node's own file. `split` is how own rows are split. Raises ConfigError, status 2.
    """
    source = task.data.source
    if shard is not None and task.data.person is not None:
        raise ConfigError(
            f"--shard {shard[0]}/{shard[1]} is refused with data.person = {shown(task.data.person)}: parts "
            "divide rows, and a person's would be at several peers; give --data FILE"
        )
    match data, shard, source:
        case Rows() | FrameRows(), None, _:
            return own_rows(rows_in_memory(data, task), task, split)
        case Rows() | FrameRows(), (part, parts), _:
            return _shard(rows_in_memory(data, task), task, part, parts)
        case Path(), None, _:
            return own_rows(read_source(data, task), task, split)
        case None, (part, parts), str():
            whole = _digits() if source == "digits" else read_source(Path(source), task)
            return _shard(whole, task, part, parts)
        case None, None, str() if source not in BUILT_IN_SOURCES:
            return own_rows(read_source(Path(source), task), task, split)
        case None, None, str():
            raise ConfigError(
                f"task {shown(task.task.name)} divides its data among the peers; give --shard I/N for this "
                "node's part, such as 0/5, or --data FILE for data of your own"
            )
        case None, _, _:
            raise ConfigError(
                f"task {shown(task.task.name)} has no data of its own; give --data FILE.csv, another file "
                "or a folder of images, without --shard, or name a data.source in the task"
            )
    raise ConfigError("--data and --shard contradict each other; give one of them")


@cache
def _digits() -> Rows:
    """Scikit-learn's handwritten digits: (1797, 64) from 0 to 1, read-only; nobody asks for draws."""
    from sklearn.datasets import load_digits  # noqa: PLC0415  seconds to import, needed here only

    bunch = load_digits()
    pixels, classes = (bunch.data / 16).astype(np.float32), bunch.target.astype(np.int64)
    for shared in (pixels, classes):
        shared.setflags(write=False)
    return Rows(pixels, classes, "digits", Report("images of 8 x 8 pixels, 10 classes", (), ()))


def _rng(task: Task, stream: int) -> np.random.Generator:
    """Returns a generator that gives every node with this task the same random numbers."""
    return np.random.default_rng([task.task.seed, stream])


def _shard(source: Rows, task: Task, part: int, parts: int) -> Dataset:
    """Returns part `part` of `parts` of the training rows, and the test rows that all parts share."""
    kept, held_out = partition.hold_out(source.y, task.data.test_fraction, _rng(task, _SPLIT))
    most = len(kept) // _SMALLEST_PART
    if parts > most:
        raise ConfigError(
            f"--shard {part}/{parts} is refused: {source.label} has {len(kept)} rows to train on, enough for "
            f"{most} parts of at least {_SMALLEST_PART}"
        )
    own = kept[_parts(source, kept, parts, _rng(task, _PARTITION))[part]]
    line = (
        f"{source.label}: {len(source.y)} rows, {source.report.headline}; part {part} of {parts} has "
        f"{len(own)} to train on, {len(held_out)} test rows are common to all and chosen by the whole set"
    )
    return _dataset(source, task, own, held_out, "test", line)


def _parts(
    source: Rows, kept: partition.RowNumbers, parts: int, rng: np.random.Generator
) -> list[partition.RowNumbers]:
    """Returns the positions in `kept` of each part: with skewed labels, or even parts without labels."""
    if source.classes is None:
        return partition.even(len(kept), parts, rng)
    return partition.dirichlet(
        source.y[kept].astype(np.int64), parts, _LABEL_SKEW, rng, min_rows=_SMALLEST_PART
    )


def own_rows(source: Rows, task: Task, split: Split = Split.ROW) -> Dataset:
    """Returns all of a node's own rows, some of them held back for validation.

    Raises ConfigError if there are none to train on.
    """
    trained, held_out = _sides(source, task, split)
    kept, most = trained, task.rows_per_person
    if source.persons is not None and most is not None:
        kept = kept[chosen_rows(source.persons.numbers[kept], source.draws[kept], most)]
    if not len(kept):
        raise ConfigError(
            f"{source.label}: all {len(source.y)} rows are held back for validation, none is to train on; "
            f"add rows, or lower data.test_fraction = {task.data.test_fraction:g} with all peers"
        )
    validates = bool(len(held_out))
    if source.classes is not None:  # then some of each class that the node has rows of
        validates = len(np.unique(source.y[held_out])) == len(np.unique(source.y))
    unused = len(trained) - len(kept)
    line = (
        f"{source.label}: {len(source.y)} rows{_of_persons(source)}, {source.report.headline}; {len(kept)} "
        f"to train on, {len(held_out)} held back for validation"
        + ("" if validates else f": {TOO_FEW}")
        + (f"; {unused} beyond {most} of a person not trained on" if unused else "")
    )
    found = _dataset(source, task, kept, held_out, "validation", line)
    return replace(found, validates=validates, persons=_persons(source, kept, held_out, task))


def _sides(source: Rows, task: Task, split: Split) -> tuple[partition.RowNumbers, partition.RowNumbers]:
    """Returns the numbers of the rows to train on, and of those held back."""
    if split is Split.BEFORE:
        return partition.hold_out(source.y, task.data.test_fraction, _rng(task, _SPLIT))
    draws = source.draws
    if source.persons is not None:
        draws = source.persons.draws(drawing_of(task), draws)
    held = held_back(draws, task.data.test_fraction)
    return np.flatnonzero(~held), np.flatnonzero(held)


def _persons(
    source: Rows, train: partition.RowNumbers, test: partition.RowNumbers, task: Task
) -> OfPersons | None:
    if source.persons is None:
        return None
    own, held_out = (torch.from_numpy(renumbered(source.persons.numbers[rows])) for rows in (train, test))
    return OfPersons(own, held_out, task.rows_per_person)


def _of_persons(source: Rows) -> str:
    """Returns ` of 120 persons`; "" if nobody asks whose the rows are."""
    if source.persons is None:
        return ""
    return f" of {counted(len(np.unique(source.persons.numbers)), 'person')}"


def _dataset(
    source: Rows,
    task: Task,
    train: partition.RowNumbers,
    test: partition.RowNumbers,
    accuracy_name: Literal["test", "validation"],
    description: str,
) -> Dataset:
    """Returns the chosen rows as tensors."""
    train_x, test_x = (torch.from_numpy(source.x[rows]) for rows in (train, test))
    train_y, test_y = (torch.from_numpy(source.y[rows]) for rows in (train, test))
    names, unit = target_words(task.data.schema)
    return Dataset(
        train_x=train_x,
        train_y=train_y,
        test_x=test_x,
        test_y=test_y,
        accuracy_name=accuracy_name,
        classes=source.classes,
        description=one_line(description),
        class_names=names or source.names,
        unit=unit,
    )


def target_words(schema: Schema | None) -> tuple[tuple[str, ...], float]:
    """Returns the names of a schema's classes and the unit of its numeric target; () and 1 if it has none."""
    match schema.target if schema is not None else None:
        case ClassTarget(values=names):
            return names, 1.0
        case NumberTarget(std=unit):
            return (), unit
        case _:
            return (), 1.0
