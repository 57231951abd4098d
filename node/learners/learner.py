"""The protocol of what learns in a node, in any framework, and what a function gets that makes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # loads torch
    from node.task.sections import Task

Vector = NDArray[np.float32]


class Learner(Protocol):
    """What learns in a node: it has rows of its own, and turns the numbers of a model into better ones.

    The members of a swarm have learners of one name, whose vectors are equally long and begin equal; what a
    place of the vector means is theirs. A node adds up the members' changes to the vector, hidden from each
    other, and every member goes on from their mean. The node calls one method at a time, in a thread. All a
    learner remembers from call to call is lost when its node starts anew, so the vector should say it all.

    A learner may also have:

    - `name`, a line of text: what the members must have in common, such as "SGDClassifier of 64 pixels". By
      default it is the name of the class.
    - `rows`, a whole number: how many rows it learns from, for `aggregation.weighting = "samples"`.
    - `loss(vector)`: the mean loss of a vector on the rows that it learns from, for `aggregation.loss_gate`.
    - `counts(vector)`: whole numbers (k,) from 0 to 2^48 - 1 about the rows that are held back, the first of
      which is how many rows these are, and `metrics(counts)`: what such numbers say, metrics by name with the
      headline first. Those of all members are added up with `aggregation.swarm_metric = "sums"`.
    """

    def vector(self) -> Vector:
        """Returns the numbers to begin with, float32 (d,): the same at all members, bit by bit."""

    def train(self, vector: Vector, round: int) -> Vector:
        """Returns what becomes of `vector` (d,) by a round of training on the own rows, float32 (d,).

        `round` is that of the run, from 1.
        """

    def evaluate(self, vector: Vector) -> Mapping[str, float]:
        """Returns how good `vector` (d,) is on rows that are held back: metrics by name, the headline first.

        `accuracy` is a share and `loss` a mean loss. Empty: there are too few rows to say.
        """

    def save(self, vector: Vector, folder: Path) -> None:
        """Writes the model of `vector` (d,) into an empty folder, as the framework's own programs read it."""


@dataclass(frozen=True)
class LearnerRows:
    """A node's rows as arrays: `x` float32 (n, ...), `y` int64 (n,) classes or float32 (n,) numbers.

    `test_x` and `test_y` are held back. `classes` is the number of classes, also of those that this node has
    no row of; None for numbers.
    """

    x: NDArray[np.float32]
    y: NDArray[np.generic]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.generic]
    classes: int | None


@dataclass(frozen=True)
class LearnerSetting:
    """What a function gets that `model.learner` names by import path; it returns a Learner.

    Random numbers of `random`, numpy and torch are drawn from `task.seed` while it makes the learner.
    """

    task: Task
    data: Path | None
    """--data: where this node's own rows are."""
    shard: tuple[int, int] | None
    """--shard I/N: which part of common rows is this node's."""
    seed: int
    """--seed: for the order of rows; differs from node to node if its owner says so."""
    rows: Callable[[], LearnerRows]
    """Reads the rows as for a torch model: by `[data]`, --data and --shard. Raises ConfigError."""

    @property
    def args(self) -> Mapping[str, Any]:
        """The task's `model.args`."""
        return self.task.model.args


MakeLearner = Callable[[LearnerSetting], Learner]
