"""The metrics of predictions, for the `metrics` of `history.jsonl` and `summary.json`, and for node.predict.

Training does not use them, and they never leave a node; `swarm_metrics` has those of a whole swarm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from node.system.errors import ConfigError
from node.task.sections import TrainSection
from node.training.figures.headline import Headline, headline_of_classes, headline_of_numbers

if TYPE_CHECKING:
    import torch  # a tracker has no use for it, and shows views that hold these figures

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_MOST_CLASSES = 100  # up to which AUC is a default metric: it sorts all rows once for each class

_FOR_CLASSES = ("accuracy", "balanced-accuracy", "auc")
_FOR_NUMBERS = ("r2", "mae")
_FOR_COUNTS = (*_FOR_NUMBERS, "deviance")


def chosen_metrics(section: TrainSection, classes: int | None) -> tuple[str, ...]:
    """Returns the metrics in train.metrics, or all for this kind of target; ConfigError for others."""
    asked, kind = section.metrics, "numbers" if classes is None else "classes"
    fitting = _FOR_NUMBERS if classes is None else _FOR_CLASSES
    if classes is None and section.counts:
        fitting, kind = _FOR_COUNTS, "counts"
    if asked is None:
        return fitting if classes is None or classes <= _MOST_CLASSES else fitting[:2]
    for name in asked:
        if name not in fitting:
            raise ConfigError(
                f"train.metrics = {list(asked)} is refused: the targets are {kind}, and {name!r} is not for "
                f"them; allowed: {', '.join(fitting)}"
            )
    return tuple(asked)


def measured(
    names: Sequence[str], outputs: torch.Tensor, targets: torch.Tensor, unit: float = 1.0
) -> Mapping[str, float | None]:
    """Returns the metrics of answers (n, ...) for targets (n,), labels or floats; None if undefined.

    Answers are logits, or numbers in the targets' scale (node.training.losses.answers).

    `unit`: the size of one unit of numeric targets in the unit that the owner's data has.
    """
    if not outputs.isfinite().all():
        return dict.fromkeys(names)
    if targets.is_floating_point():
        answers, wanted = outputs.reshape(targets.shape).double().numpy(), targets.double().numpy()
        return {name: _OF_NUMBERS[name](answers * unit, wanted * unit) for name in names}
    chances, labels = probabilities(outputs), targets.numpy()
    return {name: _OF_CLASSES[name](chances, labels) for name in names}


def accuracy_of(outputs: torch.Tensor, targets: torch.Tensor) -> float | None:
    """Returns the share of correct rows; None for numeric targets."""
    if targets.is_floating_point():
        return None
    return float((chosen_labels(outputs) == targets).float().mean())


def headline_of(
    metrics: Mapping[str, float | None],
    outputs: torch.Tensor,
    targets: torch.Tensor,
    names: Sequence[str],
    unit: float = 1.0,
) -> Headline:
    """Returns the headline among `metrics`, which are `measured` of outputs (n, ...) for targets (n,).

    `names`: those of the classes, as far as they have any.
    """
    if targets.is_floating_point():
        wanted = targets.double().numpy() * unit
        constants = {
            "mae": mean_absolute_error(np.median(wanted), wanted),
            "deviance": poisson_deviance(np.full_like(wanted, wanted.mean()), wanted),
        }
        return headline_of_numbers(metrics, constants)
    chosen = chosen_labels(outputs)
    first = int(chosen[0])
    only = class_name(names, first) if bool((chosen == first).all()) else None
    return headline_of_classes(metrics, np.bincount(targets.numpy()), only)


def class_name(names: Sequence[str], label: int) -> str:
    """Returns the name of class `label`: its number if it has no name."""
    return names[label] if label < len(names) else str(label)


def is_one_logit(outputs: torch.Tensor) -> bool:
    """Returns whether there is one logit per row, for the second of two classes: (n,) or (n, 1)."""
    return outputs.dim() == 1 or outputs.shape[1] == 1


def chosen_labels(outputs: torch.Tensor) -> torch.Tensor:
    """Returns (n,) int64: the class with the largest logit."""
    if is_one_logit(outputs):
        return (outputs.reshape(-1) > 0).long()
    return outputs.argmax(1)


def probabilities(outputs: torch.Tensor) -> Array:
    """Returns probabilities (n, k) for logits (n, k), or (n, 2) for one logit per row."""
    if is_one_logit(outputs):
        second = outputs.reshape(-1).double().sigmoid().numpy()
        return np.stack([1 - second, second], 1)
    return outputs.double().softmax(1).numpy()


def accuracy(chances: Array, labels: Labels) -> float:
    """Returns the share of rows (n, k) whose most probable class is correct."""
    return float((chances.argmax(1) == labels).mean())


def balanced_accuracy(chances: Array, labels: Labels) -> float:
    """Returns the mean recall over the classes that have rows."""
    rows, right = np.bincount(labels), np.bincount(labels[chances.argmax(1) == labels])
    found = np.zeros(len(rows))
    found[: len(right)] = right
    return float((found[rows > 0] / rows[rows > 0]).mean())


def auc(chances: Array, labels: Labels) -> float | None:
    """The area under the ROC curve: how often a row of a class scores above one of another; ties count half.

    For two classes it is the second's. For more it is the mean, each class against the rest, over the classes
    that some rows have and some do not. None if all rows have one class.
    """
    classes = [1] if chances.shape[1] == 2 else range(chances.shape[1])
    areas = [_area(chances[:, label], labels == label) for label in classes]
    there = [area for area in areas if area is not None]
    return float(np.mean(there)) if there else None


def _area(scores: Array, positive: NDArray[np.bool_]) -> float | None:
    """The area: in what share of pairs the positive row scores higher (Mann & Whitney 1947); ties count half.

    None without both kinds.
    """
    ups, downs = np.sort(scores[positive]), np.sort(scores[~positive])
    if not len(ups) or not len(downs):
        return None
    below, up_to = (int(np.searchsorted(downs, ups, side).sum()) for side in ("left", "right"))
    return (below + up_to) / 2 / (len(ups) * len(downs))


def r_squared(answers: Array, wanted: Array) -> float | None:
    """1 minus the squared error divided by that of the mean; None if all targets are equal."""
    spread = float(((wanted - wanted.mean()) ** 2).sum())
    return None if spread == 0 else 1 - float(((answers - wanted) ** 2).sum()) / spread


def mean_absolute_error(answers: Array | np.float64, wanted: Array) -> float:
    """The mean absolute error, in the unit of the targets."""
    return float(np.abs(answers - wanted).mean())


def poisson_deviance(answers: Array, wanted: Array) -> float | None:
    """The mean deviance of counts from their means, 2 (y log(y / mu) - (y - mu)); 0 is perfect.

    McCullagh & Nelder 1989, "Generalized Linear Models", section 2.3. None if a number is below 0.
    """
    if answers.min() < 0 or wanted.min() < 0:
        return None
    means = np.maximum(answers, np.finfo(np.float64).tiny)
    logs = np.log(np.where(wanted > 0, wanted, means) / means)
    return float(2 * (wanted * logs - (wanted - answers)).mean())


_OF_CLASSES: Mapping[str, Callable[[Array, Labels], float | None]] = {
    "accuracy": accuracy,
    "balanced-accuracy": balanced_accuracy,
    "auc": auc,
}
_OF_NUMBERS: Mapping[str, Callable[[Array, Array], float | None]] = {
    "r2": r_squared,
    "mae": mean_absolute_error,
    "deviance": poisson_deviance,
}
