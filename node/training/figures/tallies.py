"""Counts that a node makes of its own rows, of which the sum over all nodes gives the metrics of all.

                of          what is counted                                  metrics
    confusion   classes     rows by true class and chosen class              accuracy, balanced accuracy
    scores      2 classes   rows by true class and score                     these and the AUC
    sums        classes     rows, and right ones, by true class              accuracy, balanced accuracy
                numbers     sums of targets and errors                       R2, MAE
                a learner   what it counts itself                            those that it names

Without noise they are whole numbers, whose sums are exact, so the metrics are those of all rows in one place,
but for the AUC: it is that of scores in `BINS` steps, where rows of one step count as ties.

Counts that noise covers (`noised`) are such that one row moves them little:

                what a row adds                                              Delta
    confusion   1 in one cell of k^2                                         1
    scores      1 in one of 2 x 64 bins                                      1
    sums        of classes: 1 among the wrong or right ones of its class     1
                of numbers: (1, y/4, y^2/16, e^2/16, |e|/4), each in +-1     sqrt(5) (1 + 2^-6)

Delta is the largest L2 norm of a row's part, for a row added or removed. Where a person is the unit, a person
adds the mean of all own rows' parts, whose norm is no larger; it is rounded to the grid, and shortened if
that makes it longer (`mechanisms.noised_counts`).

Counts are exact. Sums of numbers are rounded to a grid g of at most 2^-6 (`mechanisms.noised_counts`).
Rounding moves two neighbouring sums apart by at most g more in each number: the difference of the rounded
sums is a whole number of units below 1 / g + 1 plus the sums' own rounding in float64, which is far below one
unit; as 1 / g is a whole number, the difference is at most 1 / g + 1.

A row's part must not depend on other rows. So the outputs that are counted with noise are computed for one
row at a time (node.training.trainer): in a longer batch, linear algebra may give a row other bits, and
another class.

The noised sum is clipped late: a cell below zero still counts in the sum of its class, which has no bias
then. A metric that the noise drowns is None.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from node.training.figures.headline import SMALL_IS_GOOD, Headline, headline_of_classes, headline_of_numbers
from node.training.figures.metrics import chosen_labels, class_name, is_one_logit

Sums = NDArray[np.float64]
Metrics = Mapping[str, float | None]

BINS = 256
_COARSER_BINS = 64
_STEEP = math.log1p(64) / (BINS // 2)
_UNIT = 2.0**-16
_CLEAR = 3.0  # standard deviations of its noise: a number of rows below that may be none
_LARGEST_ERROR = 0.25  # of a metric that lies between 0 and 1: beyond it, its value says nothing
_DRAWS = 100


@dataclass(frozen=True)
class Measured:
    """The metrics of (about) so many rows.

    `by_class`: rows (k,) by true class, 0 where there may be none; None for numbers. `errors`: the standard
    errors of metrics by noise alone.
    """

    rows: float
    metrics: Metrics
    by_class: NDArray[np.int64] | None
    only_class: str | None = None
    errors: Metrics = field(default_factory=dict)
    named: str | None = None
    """The metric that is the headline, where no rule chooses it."""

    @property
    def headline(self) -> Headline:
        """The one metric that says how good the model is."""
        if self.named is not None:
            return Headline(self.named, self.metrics[self.named], None)
        if self.by_class is None:
            return headline_of_numbers(self.metrics, {})
        return headline_of_classes(self.metrics, self.by_class, self.only_class)

    @property
    def error(self) -> float | None:
        """The standard error of the headline; None without noise, or without a value."""
        return None if self.headline.value is None else self.errors.get(self.headline.metric)


@dataclass(frozen=True)
class Added:
    """What rows add: `amounts` (n, k) at `places` (n, k) of the counts."""

    places: NDArray[np.int64]
    amounts: Sums


@dataclass(frozen=True, kw_only=True)
class Tally(ABC):
    """Counts that add up over nodes. `noised`: whether noise covers them."""

    noised: bool = False

    digits = 2
    """The digits of base 4096 that an exact number of a node has at most; larger ones are cut to them."""
    sensitivity = 1.0
    """Delta, of noised counts: the largest L2 norm of one row's part, rounding included."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers there are."""

    @abstractmethod
    def added(self, outputs: torch.Tensor, targets: torch.Tensor) -> Added:
        """Returns what each row adds, for outputs (n, ...) and targets (n,)."""

    def counted(self, outputs: torch.Tensor, targets: torch.Tensor) -> Sums:
        """Returns the numbers (size,) of outputs (n, ...) for targets (n,)."""
        added = self.added(outputs, targets)
        return np.bincount(added.places.ravel(), added.amounts.ravel(), self.size).astype(np.float64)

    @abstractmethod
    def measured(self, totals: Sums, std: float = 0.0) -> Measured | None:
        """Returns the metrics of a sum (size,) with noise of `std` in each number; None for no clear row."""


@dataclass(frozen=True)
class Confusion(Tally):
    """Rows by true class and chosen class."""

    classes: int
    names: Sequence[str]

    @property
    def size(self) -> int:
        """The cells of the matrix, row by row."""
        return self.classes**2

    def added(self, outputs: torch.Tensor, targets: torch.Tensor) -> Added:
        """Returns one in a cell of the matrix for each row."""
        chosen = chosen_labels(outputs)
        beyond = chosen >= self.classes  # a model may have more logits; such a row counts as a wrong one
        chosen = torch.where(beyond, (targets + 1) % self.classes, chosen)
        return _ones(targets * self.classes + chosen)

    def measured(self, totals: Sums, std: float = 0.0) -> Measured | None:
        """Sums each row of the matrix: the noise of k cells."""
        matrix = totals.reshape(self.classes, self.classes)
        only = None if self.noised else _only(matrix.sum(0), self.names)
        return _of_classes(matrix.sum(1), matrix.diagonal(), std * math.sqrt(self.classes), {}, only)


@dataclass(frozen=True)
class Scores(Tally):
    """Rows by true class and score, where there are two classes; a score is the logit of the second one.

    Noised, the steps are coarser: the sum of fewer numbers has less noise.
    """

    names: Sequence[str]

    @property
    def bins(self) -> int:
        """The steps of a score."""
        return _COARSER_BINS if self.noised else BINS

    @property
    def size(self) -> int:
        """The histogram of class 0, then that of class 1."""
        return 2 * self.bins

    def added(self, outputs: torch.Tensor, targets: torch.Tensor) -> Added:
        """Returns one in a bin for each row."""
        return _ones(targets * self.bins + torch.from_numpy(_places(outputs) // (BINS // self.bins)))

    def measured(self, totals: Sums, std: float = 0.0) -> Measured | None:
        """The noise of both histograms is independent: the area has no bias by it."""
        down, up = totals.reshape(2, self.bins)
        half = self.bins // 2  # from here on, class 1 is chosen
        rows, right = np.array([down.sum(), up.sum()]), np.array([down[:half].sum(), up[half:].sum()])
        chosen = np.array([(down + up)[:half].sum(), (down + up)[half:].sum()])
        rows_std = std * math.sqrt(self.bins)
        area = None
        if rows.min() > _CLEAR * rows_std:
            below = np.cumsum(down) - down / 2
            area = _share(float((up * below).sum() / (rows[0] * rows[1])))
        only = None if self.noised else _only(chosen, self.names)
        return _of_classes(rows, right, rows_std, {"auc": area}, only)


@dataclass(frozen=True)
class Recalls(Tally):
    """Rows by true class (noised: those that the model gets wrong), then those that it gets right."""

    classes: int

    @property
    def size(self) -> int:
        """Two numbers for each class."""
        return 2 * self.classes

    def added(self, outputs: torch.Tensor, targets: torch.Tensor) -> Added:
        """Returns one among the wrong ones of a class, or among the right ones, which follow."""
        return _ones(targets + self.classes * (chosen_labels(outputs) == targets))

    def counted(self, outputs: torch.Tensor, targets: torch.Tensor) -> Sums:
        """Returns the two numbers of each class."""
        wrong, right = super().counted(outputs, targets).reshape(2, -1)
        return np.concatenate([wrong if self.noised else wrong + right, right])

    def measured(self, totals: Sums, std: float = 0.0) -> Measured | None:
        """Adds wrong and right ones, if noised: the noise of two numbers for each class."""
        first, right = totals.reshape(2, -1)
        return _of_classes(first + right if self.noised else first, right, std * math.sqrt(2), {}, None)


@dataclass(frozen=True)
class Errors(Tally):
    """Sums over rows of a scaled target y and the error e: of 1, y + 64, y^2, e^2 and |e|, in units of 2^-16.

    `unit`: the standard deviation by which the target was scaled. Values beyond 64 of them are cut. Noised,
    values beyond 4 are, and the sums are those of 1, y/4, y^2/16, e^2/16 and |e|/4.
    """

    unit: float

    digits = 4
    sensitivity = math.sqrt(5) * (1 + 2.0**-6)
    size = 5

    @property
    def _limit_scale_shift(self) -> tuple[float, float, float]:
        """Where y and e are cut, by what they are divided, and what is added to y: in standard deviations."""
        return (4.0, 4.0, 0.0) if self.noised else (64.0, 1.0, 64.0)

    def added(self, outputs: torch.Tensor, targets: torch.Tensor) -> Added:
        """Returns what a row adds to the five sums; an output that is not finite has the largest error."""
        limit, scale, shift = self._limit_scale_shift
        wanted = np.nan_to_num(targets.double().numpy())
        answers = outputs.reshape(targets.shape).double().numpy()
        y = np.clip(wanted, -limit, limit)
        errors = answers - (wanted if self.noised else y)
        e = np.clip(np.nan_to_num(errors, nan=limit), -limit, limit) / scale
        y = y / scale
        amounts = np.stack([np.ones_like(y), y + shift, y * y, e * e, np.abs(e)]).T
        return Added(np.broadcast_to(np.arange(self.size), amounts.shape), amounts)

    def counted(self, outputs: torch.Tensor, targets: torch.Tensor) -> Sums:
        """Returns the five sums; without noise, in whole units."""
        if self.noised:
            return super().counted(outputs, targets)
        sums: Sums = np.rint(self.added(outputs, targets).amounts.sum(0) / _UNIT)
        return sums

    def measured(self, totals: Sums, std: float = 0.0) -> Measured | None:
        """Returns R2, and the error in the target's own unit."""
        _, scale, shift = self._limit_scale_shift
        sums = totals if self.noised else totals * _UNIT
        rows, shifted, squares, error, distance = (float(number) for number in sums)
        if rows < 1 or rows <= _CLEAR * std:
            return None
        y = shifted - rows * shift
        spread = squares - y * y / rows
        clear = _CLEAR * std if self.noised else rows * _UNIT
        r2 = 1 - max(0.0, error) / spread if spread > clear else None
        return Measured(rows, {"r2": r2, "mae": self.unit * scale * max(0.0, distance) / rows}, None)


@dataclass(frozen=True)
class LearnersCounts(Tally):
    """What a learner counts itself (node.learners.learner): an output (k,) is what a row adds.

    The first number is that of rows. `metrics` says what a sum of them means, the headline first.
    """

    length: int
    metrics: Callable[[Sums], Metrics]

    digits = 4

    @property
    def size(self) -> int:
        """How many numbers the learner has."""
        return self.length

    def added(self, outputs: torch.Tensor, targets: torch.Tensor) -> Added:
        """Returns the outputs; there are no targets."""
        amounts = outputs.numpy()
        return Added(np.broadcast_to(np.arange(self.length), amounts.shape), amounts)

    def measured(self, totals: Sums, std: float = 0.0) -> Measured | None:
        """Asks the learner."""
        found = self.metrics(totals) if totals[0] else {}
        return Measured(float(totals[0]), found, None, named=next(iter(found))) if found else None


def _ones(places: torch.Tensor) -> Added:
    """Returns one at one place (n,) for each row."""
    return Added(places.numpy()[:, None], np.ones((len(places), 1)))


def _of_classes(
    rows: Sums, right: Sums, std: float, more: Metrics, only_class: str | None
) -> Measured | None:
    """Returns the metrics of rows (k,) and right rows (k,) by true class; `std`: of each number of rows."""
    there, total = rows > _CLEAR * std, float(rows.sum())
    if total <= _CLEAR * std * math.sqrt(len(rows)) or not there.any():
        return None
    recalls = np.clip(right[there] / rows[there], 0.0, 1.0)
    metrics = {"accuracy": _share(float(right.sum()) / total), "balanced-accuracy": float(recalls.mean())}
    by_class = np.where(there, np.rint(rows), 0).astype(np.int64)
    return Measured(total, {**metrics, **more}, by_class, only_class)


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


def _only(chosen: Sums, names: Sequence[str]) -> str | None:
    """Returns the name of the only class that was chosen, by rows (k,) of each chosen class."""
    (labels,) = np.nonzero(chosen)
    return class_name(names, int(labels[0])) if len(labels) == 1 else None


def with_errors(tally: Tally, totals: Sums, std: float) -> Measured | None:
    """Returns the metrics of a sum (size,), and how far noise may move each; None if it drowns all.

    The standard error is that of 100 more draws of the noise, from a fixed seed: all members find the same.
    They are post-processing of the sum, which costs no privacy.
    """
    found = tally.measured(totals, std)
    if found is None or not tally.noised:
        return found
    rng = np.random.default_rng(0)
    draws = [tally.measured(totals + rng.normal(0.0, std, len(totals)), std) for _ in range(_DRAWS)]
    metrics = found.metrics
    errors = {name: _spread([one.metrics[name] for one in draws if one is not None]) for name in metrics}
    clear = {name: value if _says(name, value, errors[name]) else None for name, value in metrics.items()}
    return replace(found, metrics=clear, errors=errors)


def _spread(values: list[float | None]) -> float | None:
    """Returns the standard deviation of the values that are not None; None unless most are."""
    there = [value for value in values if value is not None]
    return float(np.std(there)) if len(there) > _DRAWS // 2 else None


def _says(metric: str, value: float | None, error: float | None) -> bool:
    """Whether a value is not drowned by its error."""
    if value is None or error is None:
        return False
    return error < (value if metric in SMALL_IS_GOOD else _LARGEST_ERROR)


def _places(outputs: torch.Tensor) -> NDArray[np.int64]:
    """Returns the bin (n,) of each logit of the second class: equal steps of sign(z) log(1 + |z|).

    They are finest around 0. A logit above 0, for which the second class is chosen, is in the upper half.
    """
    found = outputs.reshape(-1) if is_one_logit(outputs) else outputs[:, 1] - outputs[:, 0]
    logits = np.nan_to_num(found.double().numpy())
    steps = np.sign(logits) * np.log1p(np.abs(logits)) / _STEEP
    return np.clip(np.ceil(steps) - 1 + BINS // 2, 0, BINS - 1).astype(np.int64)
