"""Counts that noise covers: by how much one row moves them, and the metrics of a sum with noise.

    of          what a row adds                                            Delta
    confusion   1 in one cell of k^2                                       1
    scores      1 in one of 2 x 64 bins                                    1
    sums        of classes: 1 among the right or wrong ones of its class   1
                of numbers: (1, y/4, y^2/16, e^2/16, |e|/4), each in +-1   sqrt(5) (1 + 2^-6)

Delta is the largest L2 norm of a row's part, for a row added or removed. Where a person is the unit, a person
adds the mean of all own rows' parts, whose norm is no larger; it is rounded to the grid, and shortened if
that makes it longer (`mechanisms.noised_counts`).

Counts are exact. Sums of numbers are rounded to a grid g of at most 2^-6 (`mechanisms.noised_counts`).
Rounding moves two neighbouring sums apart by at most g more in each number: the difference of the rounded
sums is a whole number of units below 1 / g + 1 plus the sums' own rounding in float64, which is far below one
unit; as 1 / g is a whole number, the difference is at most 1 / g + 1.

A row's part must not depend on other rows. So the outputs that are counted are computed for one row at a time
(node.training.trainer): in a longer batch, linear algebra may give a row other bits, and another class.

The noised sum is clipped late: a cell below zero still counts in the sum of its class, which has no bias
then. A metric that the noise drowns is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from node.training.figures.headline import SMALL_IS_GOOD, Headline, headline_of_classes, headline_of_numbers
from node.training.figures.metrics import chosen_labels
from node.training.figures.tallies import BINS, Confusion, Errors, Recalls, Scores, Tally

Sums = NDArray[np.float64]
Metrics = Mapping[str, float | None]

COARSER_BINS = 64
_LIMIT = 4.0  # standard deviations, of a target and of an error
_CLEAR = 3.0  # standard deviations of its noise: a number of rows below that may be none
_LARGEST_ERROR = 0.25  # of a metric that lies between 0 and 1: beyond it, its value says nothing
_DRAWS = 100


@dataclass(frozen=True)
class Estimated:
    """Metrics estimated from a noised sum. `by_class`: rows (k,) by true class, 0 where there may be none."""

    rows: float
    metrics: Metrics
    by_class: NDArray[np.int64] | None


@dataclass(frozen=True)
class NoisedMeasure:
    """A headline of about so many rows, and its standard error by the noise alone."""

    rows: int
    headline: Headline
    error: float | None


@dataclass(frozen=True)
class Added:
    """What rows add: `amounts` (n, k) at `places` (n, k) of the counts."""

    places: NDArray[np.int64]
    amounts: Sums


class NoisedTally(Protocol):
    """Counts of which the noise is known."""

    @property
    def size(self) -> int:
        """How many numbers there are."""

    @property
    def sensitivity(self) -> float:
        """Delta: the largest L2 norm of one row's part, rounding included."""

    def added(self, outputs: torch.Tensor, targets: torch.Tensor) -> Added:
        """Returns what each row adds, for outputs (n, ...) and targets (n,)."""

    def estimated(self, totals: Sums, std: float) -> Estimated | None:
        """Returns the metrics of a sum (size,) with noise of `std` in each number; None for no clear row."""


@dataclass(frozen=True)
class NoisedConfusion:
    """Rows by true class and chosen class."""

    exact: Confusion

    sensitivity = 1.0

    @property
    def size(self) -> int:
        """The cells of the matrix."""
        return self.exact.size

    def added(self, outputs: torch.Tensor, targets: torch.Tensor) -> Added:
        """Returns one in a cell of the matrix for each row."""
        return _ones(self.exact.places(outputs, targets))

    def estimated(self, totals: Sums, std: float) -> Estimated | None:
        """Sums each row of the matrix: the noise of k cells."""
        classes = self.exact.classes
        matrix = totals.reshape(classes, classes)
        return _of_classes(matrix.sum(1), matrix.diagonal(), std * math.sqrt(classes), {})


@dataclass(frozen=True)
class NoisedRecalls:
    """Rows that the model gets wrong, by true class, then those that it gets right."""

    exact: Recalls

    sensitivity = 1.0

    @property
    def size(self) -> int:
        """Two numbers for each class."""
        return self.exact.size

    def added(self, outputs: torch.Tensor, targets: torch.Tensor) -> Added:
        """Returns one among the wrong ones of a class, or among the right ones, which follow."""
        right = chosen_labels(outputs) == targets
        return _ones((targets + self.exact.classes * right).numpy())

    def estimated(self, totals: Sums, std: float) -> Estimated | None:
        """Adds wrong and right ones: the noise of two numbers for each class."""
        wrong, right = totals.reshape(2, -1)
        return _of_classes(wrong + right, right, std * math.sqrt(2), {})


@dataclass(frozen=True)
class NoisedScores:
    """Rows by true class (of two) and score, in coarser steps: the sum of fewer numbers has less noise."""

    exact: Scores

    sensitivity = 1.0
    size = 2 * COARSER_BINS

    def added(self, outputs: torch.Tensor, targets: torch.Tensor) -> Added:
        """Returns one in the histogram of class 0, or in that of class 1, which follows."""
        return _ones(self.exact.places(outputs, targets) // (BINS // COARSER_BINS))

    def estimated(self, totals: Sums, std: float) -> Estimated | None:
        """The noise of both histograms is independent: the area has no bias by it."""
        down, up = totals.reshape(2, COARSER_BINS)
        half = COARSER_BINS // 2  # from here on, class 1 is chosen
        rows, right = np.array([down.sum(), up.sum()]), np.array([down[:half].sum(), up[half:].sum()])
        rows_std = std * math.sqrt(COARSER_BINS)
        area = None
        if rows.min() > _CLEAR * rows_std:
            below = np.cumsum(down) - down / 2
            area = _share(float((up * below).sum() / (rows[0] * rows[1])))
        return _of_classes(rows, right, rows_std, {"auc": area})


@dataclass(frozen=True)
class NoisedErrors:
    """Sums over rows of a scaled target y and the error e, both cut to +-4 of the target's deviations."""

    exact: Errors

    sensitivity = math.sqrt(5) * (1 + 2.0**-6)
    size = 5

    def added(self, outputs: torch.Tensor, targets: torch.Tensor) -> Added:
        """Returns what a row adds to the five sums; an output that is not finite has the largest error."""
        wanted = targets.double().numpy()
        answers = outputs.reshape(targets.shape).double().numpy()
        y = np.clip(np.nan_to_num(wanted), -_LIMIT, _LIMIT) / _LIMIT
        e = np.clip(np.nan_to_num(answers - wanted, nan=_LIMIT), -_LIMIT, _LIMIT) / _LIMIT
        amounts = np.stack([np.ones_like(y), y, y * y, e * e, np.abs(e)], axis=1)
        return Added(np.broadcast_to(np.arange(self.size), amounts.shape), amounts)

    def estimated(self, totals: Sums, std: float) -> Estimated | None:
        """Returns R2, and the error in the target's own unit."""
        rows, total, squares, error, distance = (float(number) for number in totals)
        if rows <= _CLEAR * std:
            return None
        spread = squares - total * total / rows
        r2 = 1 - max(0.0, error) / spread if spread > _CLEAR * std else None
        mae = self.exact.unit * _LIMIT * max(0.0, distance) / rows
        return Estimated(rows, {"r2": r2, "mae": mae}, None)


def _ones(places: NDArray[np.int64]) -> Added:
    """Returns one at one place (n,) for each row."""
    return Added(places[:, None], np.ones((len(places), 1)))


def of_rows(tally: NoisedTally, outputs: torch.Tensor, targets: torch.Tensor) -> Sums:
    """Returns the numbers (size,) of outputs (n, ...) for targets (n,)."""
    added = tally.added(outputs, targets)
    return np.bincount(added.places.ravel(), added.amounts.ravel(), tally.size).astype(np.float64)


def _of_classes(rows: Sums, right: Sums, std: float, more: Metrics) -> Estimated | None:
    """Returns the metrics of rows (k,) and right rows (k,) by true class; `std`: of each number of rows."""
    there, total = rows > _CLEAR * std, float(rows.sum())
    if total <= _CLEAR * std * math.sqrt(len(rows)) or not there.any():
        return None
    recalls = np.clip(right[there] / rows[there], 0.0, 1.0)
    metrics = {"accuracy": _share(float(right.sum()) / total), "balanced-accuracy": float(recalls.mean())}
    by_class = np.where(there, np.rint(rows), 0).astype(np.int64)
    return Estimated(total, {**metrics, **more}, by_class)


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


def noised_measure(tally: NoisedTally, totals: Sums, std: float) -> NoisedMeasure | None:
    """Returns the headline of a noised sum (size,), and how far noise may move it; None if it drowns.

    The standard error is that of 100 more draws of the noise, from a fixed seed: all members find the same.
    They are post-processing of the sum, which costs no privacy.
    """
    found = tally.estimated(totals, std)
    if found is None:
        return None
    rng = np.random.default_rng(0)
    draws = [tally.estimated(totals + rng.normal(0.0, std, len(totals)), std) for _ in range(_DRAWS)]
    metrics = found.metrics
    errors = {name: _spread([one.metrics[name] for one in draws if one is not None]) for name in metrics}
    clear = {name: value if _says(name, value, errors[name]) else None for name, value in metrics.items()}
    headline = (
        headline_of_numbers(clear, {})
        if found.by_class is None
        else headline_of_classes(clear, found.by_class, None)
    )
    error = None if headline.value is None else errors[headline.metric]
    return NoisedMeasure(round(found.rows), headline, error)


def _spread(values: list[float | None]) -> float | None:
    """Returns the standard deviation of the values that are not None; None unless most are."""
    there = [value for value in values if value is not None]
    return float(np.std(there)) if len(there) > _DRAWS // 2 else None


def _says(metric: str, value: float | None, error: float | None) -> bool:
    """Whether a value is not drowned by its error."""
    if value is None or error is None:
        return False
    return error < (value if metric in SMALL_IS_GOOD else _LARGEST_ERROR)


def noised(tally: Tally) -> NoisedTally:
    """Returns the tally of the same metrics whose counts may have noise."""
    for kind, make in _NOISED.items():
        if isinstance(tally, kind):
            return make(tally)
    raise TypeError(f"{type(tally).__name__} has no counts with a known sensitivity")


_NOISED: Mapping[type, Callable[..., NoisedTally]] = {
    Confusion: NoisedConfusion,
    Recalls: NoisedRecalls,
    Scores: NoisedScores,
    Errors: NoisedErrors,
}
