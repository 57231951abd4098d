"""The protection of labels or of the follower's outputs, as plain values of a cell, and what it proves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.accounting.ledger import Relation, privacy_spent
from mechanisms.labels.embeddings import EmbeddingDP
from mechanisms.labels.flips import LabelDP, MemoisedLabelDP
from mechanisms.noise.randomness import SeededWords, Words
from node.data.partition import RowNumbers
from node.system.errors import ConfigError, reason, shown
from node.task.import_path import import_class
from scenarios.study.cells import NO_EPSILON, Fact
from scenarios.vertical.parties import LabelSource, Protect, as_they_are
from scenarios.vertical.wide_deep import SCALARS

Labels = NDArray[np.floating]
Flip = Callable[[Labels], Labels]
"""A function from labels (n,) to noisy labels (n,), such as a mechanisms.labels.flips.LabelDP."""

LABEL_DP = "mechanisms.labels:LabelDP"
DELTA = 1e-5
"""The delta of the accountant's epsilon, which is shown besides the pure one."""
ONE_LABEL = f"the label of one example; neighbours: {Relation.REPLACE} one; pure, no norm"
ONE_EMBEDDING = f"all outputs for one example; neighbours: {Relation.REPLACE} them by any; pure, no norm"
_BEYOND_LABELS = (
    "the features, and the loss on true labels and the AUC shown here: each is a release of true labels"
)
_BEYOND_OUTPUTS = (
    "the labels, which gradients tell; and features beyond their own outputs: what is learned from an "
    "example moves the outputs for others"
)
_TRIED = np.array([0.0, 1.0, 1.0, 0.0])


NOTHING: Mapping[str, Fact] = {
    **NO_EPSILON,
    "protects": "nothing: gradients tell the follower the label of every row",
    "outside": "",
}
"""Facts of an arm without protection."""


@dataclass(frozen=True)
class Redrawn:
    """Labels (n,) with flips that are drawn anew at every reading, as the original does at every step."""

    flip: Flip
    labels: Labels

    def __getitem__(self, rows: RowNumbers) -> Labels:
        """The noisy labels (m,) of rows (m,)."""
        return self.flip(self.labels[rows])


@dataclass(frozen=True)
class LabelChoice:
    """A label mechanism: a class, instantiated with `words` and `parameters`, then called with labels.

    redrawn: whether flips are drawn anew whenever labels are read, instead of once.
    """

    path: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    redrawn: bool = False

    def make(self, words: Words) -> Flip:
        """Make the mechanism and try it on four labels. Raises ConfigError."""
        made = import_class(self.path)
        try:
            flip: Flip = made(words=words, **self.parameters)
        except Exception as error:  # a user's class may raise anything
            raise ConfigError(
                f"label mechanism {shown(self.path)} cannot be made with words and "
                f"{shown(dict(self.parameters))}: {reason(error)}"
            ) from error
        try:
            given = np.asarray(flip(_TRIED.copy()), np.float64)
            fits = given.shape == _TRIED.shape and bool(((given >= 0) & (given <= 1)).all())
        except Exception as error:  # as above
            raise ConfigError(f"label mechanism {shown(self.path)}: {reason(error)}") from error
        if not fits:
            raise ConfigError(
                f"label mechanism {shown(self.path)} gave {shown(given.tolist())} for the labels "
                f"{_TRIED.tolist()}; allowed: as many numbers from 0 to 1"
            )
        return flip

    def source(self, flip: Flip, labels: Labels) -> LabelSource:
        """The source of the leader's labels; `labels` (n,) are the true ones."""
        if self.redrawn:
            return Redrawn(flip, labels)
        if isinstance(flip, LabelDP):
            return MemoisedLabelDP.draw(flip, labels)
        return flip(labels)

    def facts(self, epochs: int) -> dict[str, Fact]:
        """The facts about its protection if each label is read once per epoch; no epsilon if unknown."""
        flip, draws = self.make(SeededWords(np.random.default_rng(0))), epochs if self.redrawn else 1
        how = "afresh each time they are read" if self.redrawn else "once"
        said: dict[str, Fact] = {"protects": f"labels, flipped {how}", "draws of a label": draws}
        if type(flip) is not LabelDP:  # the guarantee of other classes is unknown
            return {**NOTHING, **said, "outside": ""}
        return {
            **said,
            "epsilon": flip.total_epsilon(draws),
            "stated": flip.epsilon,
            "delta": 0.0,
            "unit": ONE_LABEL,
            "outside": _BEYOND_LABELS,
            f"epsilon at delta {DELTA:g}": privacy_spent(flip.ledger(draws), DELTA).epsilon,
        }


@dataclass(frozen=True)
class EmbeddingChoice:
    """The follower sends the noisy signs of its outputs; epsilon None: the signs without noise."""

    epsilon: float | None

    def make(self, words: Words) -> Protect:
        """Make the mechanism."""
        return EmbeddingDP(self.epsilon, words)

    def facts(self, epochs: int) -> dict[str, Fact]:
        """The facts about its protection: an example's outputs leave once per epoch and differ each time."""
        mechanism = EmbeddingDP(self.epsilon, SeededWords(np.random.default_rng(0)))
        total = epochs * mechanism.total_epsilon(SCALARS)
        finite = math.isfinite(total)
        return {
            "epsilon": total if finite else None,
            "stated": self.epsilon,
            "delta": 0.0 if finite else None,
            "unit": ONE_EMBEDDING if finite else None,
            "protects": f"the follower's outputs for an example: {SCALARS} signs"
            + (", flipped at random" if finite else " without noise"),
            "outside": _BEYOND_OUTPUTS,
            "epsilon of one release": mechanism.total_epsilon(SCALARS) if finite else None,
        }


def protect_of(choice: EmbeddingChoice | None, words: Words) -> Protect:
    """The function that the follower applies to its outputs."""
    return as_they_are if choice is None else choice.make(words)
