"""Chooses a loss for targets that a plain one would learn badly: a rare class, or numbers with heavy tails.

The facts come from an owner's rows if there is no privacy, else from the noised sums of node.agree alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from node.system.errors import shown
from node.task.data_schema import ClassTarget, NumberTarget, Target

RARE = 0.8
"""The share of the largest class from which the most probable class would hardly ever be another."""
BALANCED = "balanced-softmax"
FAR = 6.0
"""Standard deviations: a normal target is farther from its mean once in half a billion rows."""


@dataclass(frozen=True)
class ChosenLoss:
    """The keys `loss` and `loss_args` of [train], and the reason."""

    name: str
    args: Mapping[str, Any]
    why: str


def loss_for_rows(target: Target, y: NDArray[np.generic]) -> ChosenLoss | None:
    """Returns the loss for targets (n,) as the schema encodes them; None if the plain one suits them."""
    match target:
        case ClassTarget():
            return loss_for_classes(target.values, np.bincount(y, minlength=len(target.values)))
        case NumberTarget():
            return loss_for_numbers(float(np.abs(y).max()))


def loss_for_classes(names: tuple[str, ...], counts: NDArray[np.generic]) -> ChosenLoss | None:
    """Returns the loss for classes with these `counts` (k,), of which one below 1 counts as 1."""
    shares = np.maximum(counts, 1) / np.maximum(counts, 1).sum()
    if shares.max() <= RARE:
        return None
    prior = [float(f"{share:.2g}") for share in shares]
    largest = shown(names[int(shares.argmax())])
    return ChosenLoss(
        BALANCED,
        {"prior": prior},
        f"{largest} has {shares.max():.0%} of the rows, so a plain loss would hardly choose another",
    )


def loss_for_numbers(farthest: float) -> ChosenLoss | None:
    """Returns the loss for numbers of which one lies `farthest` standard deviations from the mean."""
    if farthest <= FAR:
        return None
    return ChosenLoss("huber", {}, f"some targets are {farthest:.0f} standard deviations from the mean")
