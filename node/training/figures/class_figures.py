"""Figures of a model class by class, on the rows that a node holds back: recall, ROC curve, calibration.

The curve has the recall of a class at each share of false alarms (FALSE_ALARMS), over all thresholds on its
probability. For calibration, rows are sorted by the probability of the class that the model gives them (of
two classes: of the second), and the mean of each tenth is held against how often it was right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from node.training.figures.metrics import class_name, probabilities

if TYPE_CHECKING:
    import torch

MOST_CLASSES = 32
"""The most classes with figures: those with the most rows held back."""
MOST_CURVES = 8
FALSE_ALARMS = tuple(place / 50 for place in range(51))
_TENTHS = 10
_KEPT_BYTES = 1 << 20

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ClassFigure:
    """A class: its rows, how many of those held back the model finds, and how many rows it gives the class.

    `roc`: its recall at each of FALSE_ALARMS; empty if there is no such curve.
    """

    name: str
    trained_on: int
    held_back: int
    recall: float | None
    given: int
    roc: tuple[float, ...]


@dataclass(frozen=True)
class Tenth:
    """Some rows held back: their mean probability, how often it was right, and how many they are."""

    promised: float
    happened: float
    rows: int


@dataclass(frozen=True)
class ClassFigures:
    """The figures of all classes. `calibrated`: the class of `calibration`; "": the class given."""

    classes: tuple[ClassFigure, ...]
    calibration: tuple[Tenth, ...]
    calibrated: str


def no_class_figures() -> None:
    """Returns None: there are no figures."""


def class_figures(
    outputs: torch.Tensor, targets: torch.Tensor, trained_on: torch.Tensor, names: Sequence[str]
) -> Callable[[], ClassFigures | None]:
    """Returns what makes the figures of outputs (n, ...) for labels (n,); see `figures_by_class`.

    The figures take as long as all other metrics. Few outputs are kept until somebody asks for them.
    """
    make = partial(figures_by_class, outputs, targets, trained_on, names)
    if outputs.nbytes <= _KEPT_BYTES:
        return make
    made = make()
    return lambda: made


def figures_by_class(
    outputs: torch.Tensor, targets: torch.Tensor, trained_on: torch.Tensor, names: Sequence[str]
) -> ClassFigures | None:
    """Returns the figures of outputs (n, ...) for labels (n,); `trained_on`: the labels of the other rows.

    None for numeric targets, and for outputs that are not finite.
    """
    if targets.is_floating_point() or not outputs.isfinite().all():
        return None
    chances, labels = probabilities(outputs), targets.numpy()
    count = max(chances.shape[1], int(labels.max()) + 1)
    held, given = np.bincount(labels, minlength=count), np.bincount(chances.argmax(1), minlength=count)
    trained = np.bincount(trained_on.cpu().numpy(), minlength=count)
    shown = sorted(np.argsort(-(held + trained / (trained.sum() + 1)), kind="stable")[:MOST_CLASSES])
    two = chances.shape[1] == 2
    curves = {1} if two else set(shown[:MOST_CURVES])
    right = chances.argmax(1) == labels
    return ClassFigures(
        classes=tuple(
            ClassFigure(
                name=class_name(names, label),
                trained_on=int(trained[label]),
                held_back=int(held[label]),
                recall=float(right[labels == label].mean()) if held[label] else None,
                given=int(given[label]),
                roc=_roc(chances[:, label], labels == label) if label in curves else (),
            )
            for label in map(int, shown)
            if held[label] or trained[label] or given[label]
        ),
        calibration=_calibration(chances[:, 1], labels == 1) if two else _calibration(chances.max(1), right),
        calibrated=class_name(names, 1) if two else "",
    )


def _roc(scores: Array, positive: NDArray[np.bool_]) -> tuple[float, ...]:
    """Returns the recall at each of FALSE_ALARMS; equal scores come together. Empty without both kinds."""
    ups, downs = int(positive.sum()), int((~positive).sum())
    if not ups or not downs:
        return ()
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    recall = np.append(0.0, np.cumsum(positive[order])[last] / ups)
    alarms = np.append(0.0, np.cumsum(~positive[order])[last] / downs)
    return tuple(np.round(np.interp(FALSE_ALARMS, alarms, recall), 6).tolist())


def _calibration(chances: Array, happened: NDArray[np.bool_]) -> tuple[Tenth, ...]:
    parts = np.array_split(np.argsort(chances, kind="stable"), _TENTHS)
    return tuple(
        Tenth(round(float(chances[part].mean()), 6), round(float(happened[part].mean()), 6), len(part))
        for part in parts
        if len(part)
    )
