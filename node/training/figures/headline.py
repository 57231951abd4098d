"""The headline: the one metric that says how good a model is, chosen by the rows that it is measured on.

    numbers                                  r2, else mae, else (of counts) deviance
    classes, the largest has over 80 %       auc, else balanced-accuracy, else accuracy
    classes otherwise                        accuracy, else balanced-accuracy, else auc

A model that always gives the largest class has a high accuracy on rows of almost one class, but an AUC of one
half. The baseline is what the best constant answer reaches on the same rows.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SKEWED = 0.8
"""Above this share of the largest class, accuracy says little."""

_BALANCED = ("accuracy", "balanced-accuracy", "auc")
_UNBALANCED = ("auc", "balanced-accuracy", "accuracy")
_NUMBERS = ("r2", "mae", "deviance")
SMALL_IS_GOOD = ("mae", "deviance")
CONSTANT_ANSWERS = {
    "accuracy": "always saying the most frequent class",
    "balanced-accuracy": "guessing",
    "auc": "guessing",
    "r2": "always saying the mean",
    "mae": "always saying the median",
    "deviance": "always saying the mean",
}
"""What reaches the baseline of a metric, as what somebody does."""
_COMPANIONS = {"auc": ("balanced-accuracy",), "r2": ("deviance", "mae")}


@dataclass(frozen=True)
class Headline:
    """A metric, its value on some rows (None if they do not define it), and that of a constant answer.

    `only_class`: the class that the model gives every row, where the rows have several; None otherwise.
    """

    metric: str
    value: float | None
    baseline: float | None
    only_class: str | None = None

    @property
    def is_constant(self) -> bool:
        """Whether the model gives every row one class, where the rows have several."""
        return self.only_class is not None


@dataclass(frozen=True)
class Alone:
    """The headline metric of the owner's model alone, on the same rows as that of the common model."""

    metric: str
    value: float
    trained: float
    """How much of the run's training it had when the time was over: 1 is all of it."""


def companion(metric: str, measured: Container[str]) -> str | None:
    """Returns the metric among `measured` that is shown beside the headline `metric`, if there is one."""
    return next((name for name in _COMPANIONS.get(metric, ()) if name in measured), None)


def headline_of_classes(
    metrics: Mapping[str, float | None], rows: NDArray[np.int64], only_class: str | None
) -> Headline:
    """Returns the headline among `metrics`, of rows (k,) by their true class; there is at least one row."""
    share, there = float(rows.max() / rows.sum()), int(np.count_nonzero(rows))
    order = _UNBALANCED if share > SKEWED and there > 1 else _BALANCED
    metric = next(name for name in order if name in metrics)
    baseline = {"accuracy": share, "balanced-accuracy": 1 / there, "auc": 0.5}[metric]
    return Headline(metric, metrics[metric], baseline, only_class if there > 1 else None)


def headline_of_numbers(
    metrics: Mapping[str, float | None], constants: Mapping[str, float | None]
) -> Headline:
    """Returns the headline among `metrics`. `constants`: what the best constant answer has, if known."""
    metric = next(name for name in _NUMBERS if name in metrics)
    return Headline(metric, metrics[metric], 0.0 if metric == "r2" else constants.get(metric))
