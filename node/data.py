"""A node's rows: its part of a set that all peers have in common, or data of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from node import partition
from node.config import BUILT_IN_SOURCES, Task
from node.errors import ConfigError, one_line, shown
from node.tables import Table, read_table

_LABEL_SKEW = 0.5  # the Dirichlet parameter of the partition into shards
_SMALLEST_PART = 8  # rows
_MOST_CLASSES = 1_000_000
_SPLIT, _PARTITION = 1, 2  # streams of random numbers under task.seed


@dataclass(frozen=True)
class Dataset:
    """The rows of one node, as tensors on the CPU.

    `train_x` and `test_x` are float32 (n, ...). With `classes` the targets are int64 (n,) in
    0..classes-1, without they are float32 (n,) to be regressed on. `accuracy_name` says what
    the test rows are: the swarm's common "test" rows, or a "validation" part of one's own.
    `description` is one line of what was understood of the data.
    """

    train_x: torch.Tensor
    train_y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor
    accuracy_name: Literal["test", "validation"]
    classes: int | None
    description: str


@dataclass(frozen=True)
class _Source:
    """All rows of a source, not yet divided: x (n, ...), y (n,) integers or floats."""

    x: NDArray[np.float32]
    y: NDArray[np.int64] | NDArray[np.float32]
    classes: int | None
    label: str  # "digits", or the file's name
    content: str  # what its rows are


def load_dataset(task: Task, data: Path | None, shard: tuple[int, int] | None) -> Dataset:
    """The rows that this node learns from.

    `shard` (part, parts) takes a part of the task's own data; `data` is a file of one's own. With
    neither, data.source is taken as a file of one's own. Raises ConfigError, status 2.
    """
    source = task.data.source
    match data, shard, source:
        case Path(), None, _:
            return _own(_from_file(data, task), task)
        case None, (part, parts), str():
            return _shard(_read(source, task), task, part, parts)
        case None, None, str() if source not in BUILT_IN_SOURCES:
            return _own(_from_file(Path(source), task), task)
        case None, None, str():
            raise ConfigError(
                f"task {shown(task.task.name)} divides its data among the peers; give --shard I/N for this "
                "node's part, such as 0/5, or --data FILE for data of your own"
            )
        case None, _, _:
            raise ConfigError(
                f"task {shown(task.task.name)} has no data of its own; give --data FILE.csv or FILE.npz, "
                "without --shard, or name a data.source in the task"
            )
    raise ConfigError("--data and --shard contradict each other; give one of them")


def _read(source: str, task: Task) -> _Source:
    """The rows of a task's own source."""
    return _digits() if source == "digits" else _from_file(Path(source), task)


def _digits() -> _Source:
    """Scikit-learn's handwritten digits, shipped with it: pixels (1797, 64) from 0 to 1."""
    from sklearn.datasets import load_digits  # noqa: PLC0415  seconds to import, needed here only

    bunch = load_digits()
    pixels = (bunch.data / 16).astype(np.float32)
    return _Source(pixels, bunch.target.astype(np.int64), 10, "digits", "images of 8 x 8 pixels, 10 classes")


def _from_file(path: Path, task: Task) -> _Source:
    """The rows of a file; targets that are all whole numbers are class labels."""
    table = read_table(path, task.data.features, task.data.target)
    y, classes = _targets(path, table)
    kind = f"classes 0 to {classes - 1}" if classes else "any number, accuracy is R^2"
    content = f"{_features(table)}, target {shown(table.target)} ({kind})"
    return _Source(table.x, y, classes, path.name, content)


def _targets(path: Path, table: Table) -> tuple[NDArray[np.int64] | NDArray[np.float32], int | None]:
    """The targets (n,), and the number of classes if they are labels."""
    whole = np.all(table.y == np.floor(table.y))
    if not whole:
        return table.y.astype(np.float32), None
    for label in (table.y.min(), table.y.max()):
        if not 0 <= label < _MOST_CLASSES:
            raise ConfigError(
                f"data file {shown(str(path))}: target {shown(table.target)} holds the label {label:.0f}; "
                f"allowed: 0 to K-1, K at most {_MOST_CLASSES} (whole numbers are read as class labels)"
            )
    labels = table.y.astype(np.int64)
    return labels, max(2, int(labels.max()) + 1)


def _features(table: Table) -> str:
    """The features in a few words."""
    names = table.features
    if table.x.ndim > 2 or len(names) == 1:
        return f"features {shown(names[0])} of shape {table.x.shape[1:]}"
    return f"{len(names)} features ({shown(names[0])} to {shown(names[-1])})"


def _rng(task: Task, stream: int) -> np.random.Generator:
    """Random numbers that every node with this task draws alike."""
    return np.random.default_rng([task.task.seed, stream])


def _shard(source: _Source, task: Task, part: int, parts: int) -> Dataset:
    """Part `part` of `parts` of the training rows, and the test rows that all parts share."""
    kept, held_out = partition.hold_out(source.y, task.data.test_fraction, _rng(task, _SPLIT))
    most = len(kept) // _SMALLEST_PART
    if parts > most:
        raise ConfigError(
            f"--shard {part}/{parts} is refused: {source.label} has {len(kept)} rows to train on, enough for "
            f"{most} parts of at least {_SMALLEST_PART}"
        )
    own = kept[_parts(source, kept, parts, _rng(task, _PARTITION))[part]]
    line = (
        f"{source.label}: {len(source.y)} rows, {source.content}; part {part} of {parts} has {len(own)} to "
        f"train on, {len(held_out)} test rows are common to all"
    )
    return _dataset(source, own, held_out, "test", line)


def _parts(
    source: _Source, kept: partition.Rows, parts: int, rng: np.random.Generator
) -> list[partition.Rows]:
    """Places in `kept` of each part: unlike in their labels, or even where there are none."""
    if source.classes is None:
        return partition.even(len(kept), parts, rng)
    return partition.dirichlet(
        source.y[kept].astype(np.int64), parts, _LABEL_SKEW, rng, min_rows=_SMALLEST_PART
    )


def _own(source: _Source, task: Task) -> Dataset:
    """All of a node's own rows, some of them held back for validation."""
    kept, held_out = partition.hold_out(source.y, task.data.test_fraction, _rng(task, _SPLIT))
    line = (
        f"{source.label}: {len(source.y)} rows, {source.content}; {len(kept)} to train on, "
        f"{len(held_out)} held back for validation"
    )
    return _dataset(source, kept, held_out, "validation", line)


def _dataset(
    source: _Source,
    train: partition.Rows,
    test: partition.Rows,
    accuracy_name: Literal["test", "validation"],
    description: str,
) -> Dataset:
    """The chosen rows as tensors."""
    train_x, test_x = (torch.from_numpy(source.x[rows]) for rows in (train, test))
    train_y, test_y = (torch.from_numpy(source.y[rows]) for rows in (train, test))
    line = one_line(description)
    return Dataset(train_x, train_y, test_x, test_y, accuracy_name, source.classes, line)
