"""Whole numbers that a node counts on its own rows, of which the sum over all nodes gives the metrics of all.

    confusion   rows by true class and chosen class              accuracy, balanced accuracy
    scores      rows by true class (of two) and score            these and the AUC
    sums        of classes: rows, and right ones, by true class  accuracy, balanced accuracy
                of numbers: sums of targets and errors           R2, MAE

Sums of whole numbers are exact, so the metrics are those of all rows in one place, but for the AUC: it is
that of scores in `BINS` steps, where rows of one step count as ties.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from node.data.dataset import Dataset
from node.errors import ConfigError
from node.task.sections import MOST_CONFUSED
from node.training.figures.headline import Headline, headline_of_classes, headline_of_numbers
from node.training.figures.metrics import chosen_labels, class_name, is_one_logit

Counts = NDArray[np.int64]

BINS = 256
_STEEP = math.log1p(64) / (BINS // 2)
_LIMIT = 64.0  # standard deviations, of a target and of an error
_UNIT = 2.0**-16


@dataclass(frozen=True)
class Measured:
    """The metrics of some rows, and how many rows these are."""

    rows: int
    headline: Headline
    metrics: Mapping[str, float | None]


class Tally(Protocol):
    """Counts that add up over nodes."""

    @property
    def size(self) -> int:
        """How many numbers there are."""

    @property
    def largest(self) -> int:
        """The largest number that a node may count; larger ones are cut to it."""

    def counted(self, outputs: torch.Tensor, targets: torch.Tensor) -> Counts:
        """Returns the numbers (size,), none negative, of outputs (n, ...) for targets (n,)."""

    def measured(self, totals: Counts) -> Measured | None:
        """Returns the metrics for a sum of numbers (size,); None for no rows."""


@dataclass(frozen=True)
class Confusion:
    """Rows by true class and chosen class."""

    classes: int
    names: Sequence[str]

    largest = 2**24 - 1

    @property
    def size(self) -> int:
        """The cells of the matrix."""
        return self.classes**2

    def counted(self, outputs: torch.Tensor, targets: torch.Tensor) -> Counts:
        """Returns the matrix, row by row."""
        return np.bincount(self.places(outputs, targets), minlength=self.size)

    def places(self, outputs: torch.Tensor, targets: torch.Tensor) -> Counts:
        """Returns the cell (n,) in which each row counts."""
        chosen = chosen_labels(outputs)
        beyond = chosen >= self.classes  # a model may have more logits; such a row counts as a wrong one
        chosen = torch.where(beyond, (targets + 1) % self.classes, chosen)
        return (targets * self.classes + chosen).numpy()

    def measured(self, totals: Counts) -> Measured | None:
        """Returns the metrics for a sum of matrices."""
        matrix = totals.reshape(self.classes, self.classes)
        return _of_classes(matrix.sum(1), matrix.diagonal(), {}, _only(matrix.sum(0), self.names))


@dataclass(frozen=True)
class Scores:
    """Rows by true class and score, where there are two classes; a score is the logit of the second one."""

    names: Sequence[str]

    largest = 2**24 - 1
    size = 2 * BINS

    def counted(self, outputs: torch.Tensor, targets: torch.Tensor) -> Counts:
        """Returns the histogram of class 0, then that of class 1."""
        return np.bincount(self.places(outputs, targets), minlength=self.size)

    def places(self, outputs: torch.Tensor, targets: torch.Tensor) -> Counts:
        """Returns the bin (n,) in which each row counts."""
        return targets.numpy() * BINS + _places(_logits(outputs))

    def measured(self, totals: Counts) -> Measured | None:
        """Returns the metrics for a sum of histograms."""
        down, up = totals.reshape(2, BINS)
        half = BINS // 2  # from here on, class 1 is chosen
        rows = np.array([down.sum(), up.sum()])
        right = np.array([down[:half].sum(), up[half:].sum()])
        chosen = np.array([(down + up)[:half].sum(), (down + up)[half:].sum()])
        area = None
        if rows.all():
            below = np.cumsum(down) - down / 2
            area = float((up * below).sum() / (float(rows[0]) * float(rows[1])))
        return _of_classes(rows, right, {"auc": area}, _only(chosen, self.names))


@dataclass(frozen=True)
class Recalls:
    """Rows by true class, and those among them that the model gets right."""

    classes: int

    largest = 2**24 - 1

    @property
    def size(self) -> int:
        """Two numbers for each class."""
        return 2 * self.classes

    def counted(self, outputs: torch.Tensor, targets: torch.Tensor) -> Counts:
        """Returns the rows of each class, then the right ones."""
        right = targets[chosen_labels(outputs) == targets]
        both = (np.bincount(labels.numpy(), minlength=self.classes) for labels in (targets, right))
        return np.concatenate(list(both))

    def measured(self, totals: Counts) -> Measured | None:
        """Returns the metrics for a sum."""
        rows, right = totals.reshape(2, self.classes)
        return _of_classes(rows, right, {}, None)


@dataclass(frozen=True)
class Errors:
    """Sums over rows of a scaled target y and the error e: of 1, y + 64, y^2, e^2 and |e|, in units of 2^-16.

    `unit`: the standard deviation by which the target was scaled. Values beyond 64 of them are cut.
    """

    unit: float

    largest = 2**48 - 1
    size = 5

    def counted(self, outputs: torch.Tensor, targets: torch.Tensor) -> Counts:
        """Returns the five sums; an output that is not finite has the largest error."""
        y = np.clip(targets.double().numpy(), -_LIMIT, _LIMIT)
        answers = outputs.reshape(targets.shape).double().numpy()
        e = np.clip(np.nan_to_num(answers - y, nan=_LIMIT), -_LIMIT, _LIMIT)
        sums = (np.ones_like(y).sum(), (y + _LIMIT).sum(), (y * y).sum(), (e * e).sum(), np.abs(e).sum())
        return np.rint(np.array(sums) / _UNIT).astype(np.int64)

    def measured(self, totals: Counts) -> Measured | None:
        """Returns the metrics for a sum of sums, the error in the target's own unit."""
        rows, shifted, squares, error, distance = (float(total) * _UNIT for total in totals)
        if rows < 1:
            return None
        y = shifted - rows * _LIMIT
        spread = squares - y * y / rows
        r2 = 1 - error / spread if spread > rows * _UNIT else None
        metrics = {"r2": r2, "mae": self.unit * distance / rows}
        return Measured(round(rows), headline_of_numbers(metrics, {}), metrics)


def _of_classes(
    rows: Counts, right: Counts, more: Mapping[str, float | None], only_class: str | None
) -> Measured | None:
    """Returns the metrics for rows (k,) and right rows (k,) by true class."""
    total = int(rows.sum())
    if total == 0:
        return None
    there = rows > 0
    shares = {
        "accuracy": float(right.sum() / total),
        "balanced-accuracy": float((right[there] / rows[there]).mean()),
    }
    metrics = {**shares, **more}
    return Measured(total, headline_of_classes(metrics, rows, only_class), metrics)


def _only(chosen: Counts, names: Sequence[str]) -> str | None:
    """Returns the name of the only class that was chosen, by rows (k,) of each chosen class."""
    (labels,) = np.nonzero(chosen)
    return class_name(names, int(labels[0])) if len(labels) == 1 else None


def _logits(outputs: torch.Tensor) -> NDArray[np.float64]:
    """Returns the logit (n,) of the second of two classes."""
    found = outputs.reshape(-1) if is_one_logit(outputs) else outputs[:, 1] - outputs[:, 0]
    return np.nan_to_num(found.double().numpy())


def _places(logits: NDArray[np.float64]) -> Counts:
    """Returns the bin (n,) of each logit: equal steps of sign(z) log(1 + |z|), finest around 0.

    A logit above 0, for which the second class is chosen, has a bin of the upper half.
    """
    steps = np.sign(logits) * np.log1p(np.abs(logits)) / _STEEP
    return np.clip(np.ceil(steps) - 1 + BINS // 2, 0, BINS - 1).astype(np.int64)


def make_tally(kind: str, dataset: Dataset, has_schema: bool) -> Tally:
    """Returns the tally that `aggregation.swarm_metric` names; ConfigError if these rows do not allow it."""
    classes = dataset.classes
    refused = f"aggregation.swarm_metric = {kind!r} is refused: "
    if kind == "sums":
        if classes is not None:
            return Recalls(classes)
        if not has_schema:
            raise ConfigError(
                f"{refused}sums of numbers need the target's scale, and the task has no data.schema; "
                "write the task with node.init, or set aggregation.swarm_metric=none"
            )
        return Errors(dataset.unit)
    if kind == "scores":
        if classes != 2:
            raise ConfigError(f"{refused}the targets are {_kind(classes)}; allowed: 2 classes, or 'sums'")
        return Scores(dataset.class_names)
    if classes is None or classes > MOST_CONFUSED:
        raise ConfigError(
            f"{refused}the targets are {_kind(classes)}; allowed: at most {MOST_CONFUSED} classes, or 'sums'"
        )
    return Confusion(classes, dataset.class_names)


def _kind(classes: int | None) -> str:
    return "numbers" if classes is None else f"of {classes} classes"
