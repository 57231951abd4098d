"""Label differential privacy by randomised response (Ghazi et al. 2021, Algorithm 1 with k = all classes).

Unit of privacy: the label of one example. Neighbouring: the same examples, one label replaced. Pure
epsilon, no delta. The features are not protected, nor is the set of examples. What is trained on the noisy
labels, however often, costs nothing more; drawing afresh from the true labels does (`total_epsilon`), and
so does a loss that is computed from the true labels and shown: it is a release of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import repeat
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from mechanisms import arguments
from mechanisms.accounting.ledger import Ledger, Pure
from mechanisms.labels.forms import Form, as_float64, like
from mechanisms.labels.randomised_response import Classes, respond
from mechanisms.noise.randomness import SystemWords, Words

LARGEST_EPSILON = 100.0
Rows = slice | NDArray[np.int64]

_ALLOWED = "0 and 1 in shape (n,) or (n, 1), or one-hot rows in shape (n, classes)"


def capped_epsilon(value: object) -> float:
    """`value` as a float of at least 0, where anything above 100, infinity too, is taken as 100."""
    if isinstance(value, int | float | np.integer | np.floating) and value > LARGEST_EPSILON:
        return LARGEST_EPSILON
    return arguments.at_least_zero("epsilon", value)


@dataclass(frozen=True, slots=True)
class LabelDP:
    """Each call draws noisy labels: `LabelDP(1.0)(labels)`.

    epsilon: for one label and one draw; at least 0; above 100 is taken as 100. TypeError for what is not a
    number, ValueError for a negative one or NaN.
    words: the randomness; seeded words are for simulations only.
    """

    epsilon: float
    words: Words = field(default_factory=SystemWords, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", capped_epsilon(self.epsilon))

    def __call__(self, labels: Form) -> Form:
        """Noisy labels in the form of `labels`: same library, shape and type; the argument is not changed.

        labels: numpy array or torch tensor; 0 and 1 in shape (n,) or (n, 1), else one-hot rows (n, classes).
        TypeError for what is no array of numbers, ValueError for other values and shapes.
        """
        values = as_float64("labels", labels)
        if _is_binary(values):
            return like(self._respond(values.ravel(), 2).reshape(values.shape).astype(np.float64), labels)
        if not _is_one_hot(values):
            shape = tuple(labels.shape)
            raise ValueError(f"labels of shape {shape} with these values are not allowed: {_ALLOWED}")
        classes = values.shape[1]
        return like(np.eye(classes)[self._respond(values.argmax(axis=1), classes)], labels)

    def total_epsilon(self, draws: int) -> float:
        """The pure epsilon of one label that was drawn afresh `draws` times: basic composition."""
        return arguments.count("draws", draws) * self.epsilon

    def spent(self, draws: int) -> Ledger:
        """What `draws` fresh draws put into the ledger: so many pure releases of the same labels."""
        return Ledger.of(repeat(Pure(self.epsilon), arguments.count("draws", draws)))

    def _respond(self, given: NDArray[np.number], classes: int) -> Classes:
        return respond(given.astype(np.int64), classes, self.epsilon, self.words)


@dataclass(frozen=True, slots=True)
class MemoisedLabelDP(Generic[Form]):
    """Noisy labels of a fixed data set, drawn once: however often they are read, epsilon is that of one draw.

    Made by `MemoisedLabelDP.draw`; it does not keep the true labels. For the guarantee, draw one of these
    in the data set's lifetime, and keep it with the data.
    """

    epsilon: float
    labels: Form

    @classmethod
    def draw(cls, mechanism: LabelDP, labels: Form) -> MemoisedLabelDP[Form]:
        """The labels of the whole data set, in a form that LabelDP takes, drawn once."""
        return cls(mechanism.epsilon, mechanism(labels))

    def __getitem__(self, rows: Rows) -> Form:
        """The noisy labels of some examples: a slice, or an array of their indices."""
        return self.labels[rows]

    def spent(self) -> Ledger:
        """One pure release."""
        return Ledger.of([Pure(self.epsilon)])


def _is_binary(values: NDArray[np.float64]) -> bool:
    shaped = values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1)
    return shaped and _only_bits(values)


def _is_one_hot(values: NDArray[np.float64]) -> bool:
    """Whether each row, not merely the average row, holds exactly one 1 and otherwise 0."""
    shaped = values.ndim == 2 and values.shape[1] >= 2
    return shaped and _only_bits(values) and bool((values.sum(axis=1) == 1).all())


def _only_bits(values: NDArray[np.float64]) -> bool:
    return bool(((values == 0) | (values == 1)).all())
