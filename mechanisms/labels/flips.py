"""Label differential privacy by randomised response (Ghazi et al. 2021, Algorithm 1 with k = all classes).

Unit of privacy: the label of one example. Neighbours: the same examples, one label replaced. Pure epsilon, no
delta. The mechanism protects neither the features nor the set of examples. Training on the noisy labels costs
nothing more, however often. Two things cost more: a new draw from the true labels (`total_epsilon`), and
publishing a loss on the true labels, which is a release of its own.

Randomised response keeps a class with probability e^eps / (n - 1 + e^eps) and turns it into each other class
with 1 / (n - 1 + e^eps) (Warner 1965 for two classes; Kairouz, Oh, Viswanath 2014 for n). The probabilities
are multiples of 2^-64: each other class gets the same number c of the 2^64 words. c is rounded up, so the
ratio (2^64 - (n - 1) c) / c never exceeds e^eps, and for a very large epsilon is below it: 44.4 is proved for
100. At epsilon 0 (or below 1e-14) the ratio is at most 1 + n^2 2^-63, as n may not divide the 2^64 words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from mechanisms import arguments
from mechanisms.accounting.ledger import Ledger, Pure
from mechanisms.noise.randomness import SystemWords, Words, uniform64

Classes = NDArray[np.int64]

_WORDS = 1 << 64
_ROUNDING = 1.0 + 2.0**-48  # more than the error of e^eps and of the division in double precision

Form = TypeVar("Form", NDArray[Any], torch.Tensor)
_NUMERIC = "biuf"  # booleans, integers, floats; neither complex numbers nor objects
LARGEST_EPSILON = 100.0
Rows = slice | NDArray[np.int64]
_ALLOWED = "0 and 1 in shape (n,) or (n, 1), or one-hot rows in shape (n, classes)"


def words_for_another(epsilon: float, classes: int) -> int:
    """c: the number of the 2^64 words that turn a class into one particular other class."""
    wanted = math.ceil(2.0**64 * _ROUNDING / (classes - 1 + math.exp(epsilon)))
    return min(wanted, _WORDS // classes)


def respond(given: Classes, classes: int, epsilon: float, words: Words) -> Classes:
    """Keeps or changes each of (n,) classes in 0 .. `classes` - 1 independently; returns (n,) classes.

    Unit of privacy: one entry; neighbours: replace that entry; pure `epsilon` >= 0. The caller checks the
    arguments: entries within range, `classes` at least 2.
    """
    share = words_for_another(epsilon, classes)
    drawn = uniform64(len(given), words)
    other = (drawn // np.uint64(share)).astype(np.int64)  # which of the n - 1 others, if the class changes
    other += other >= given
    return np.where(drawn < np.uint64((classes - 1) * share), other, given)


def as_float64(name: str, array: object) -> NDArray[np.float64]:
    """Returns the values of a numpy array or torch tensor of any shape; raises TypeError for others."""
    if isinstance(array, torch.Tensor) and not array.is_complex():
        return array.detach().to("cpu", torch.float64).numpy()
    if isinstance(array, np.ndarray) and array.dtype.kind in _NUMERIC:
        return array.astype(np.float64)
    kind = array.dtype if isinstance(array, (np.ndarray, torch.Tensor)) else type(array).__name__
    raise TypeError(f"{name} of {kind} are not allowed: a numpy array or a torch tensor of real numbers")


def convert_like(values: NDArray[np.float64], form: Form) -> Form:
    """Returns `values` as an array or tensor, with the type of `form`, and with its device if a tensor."""
    if isinstance(form, torch.Tensor):
        return torch.from_numpy(values).to(form.device, form.dtype)
    return values.astype(form.dtype)


def capped_epsilon(value: object) -> float:
    """Returns `value` as a float of at least 0; anything above 100, also infinity, becomes 100."""
    if isinstance(value, int | float | np.integer | np.floating) and value > LARGEST_EPSILON:
        return LARGEST_EPSILON
    return arguments.at_least_zero("epsilon", value)


@dataclass(frozen=True, slots=True)
class LabelDP:
    """Each call draws noisy labels: `LabelDP(1.0)(labels)`.

    epsilon: for one label and one draw; at least 0; a value above 100 counts as 100. Raises TypeError if it
    is not a number, ValueError for a negative one or NaN.
    words: the randomness; use seeded words in simulations only.
    """

    epsilon: float
    words: Words = field(default_factory=SystemWords, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", capped_epsilon(self.epsilon))

    def __call__(self, labels: Form) -> Form:
        """Returns noisy labels with the library, shape and type of `labels`, which stays unchanged.

        labels: numpy array or torch tensor; 0 and 1 in shape (n,) or (n, 1), else one-hot rows (n, classes).
        Raises TypeError unless it is an array of numbers, ValueError for other values and shapes.
        """
        values = as_float64("labels", labels)
        if _is_binary(values):
            bits = self._respond(values.ravel(), 2).reshape(values.shape)
            return convert_like(bits.astype(np.float64), labels)
        if not _is_one_hot(values):
            shape = tuple(labels.shape)
            raise ValueError(f"labels of shape {shape} with these values are not allowed: {_ALLOWED}")
        classes = values.shape[1]
        return convert_like(np.eye(classes)[self._respond(values.argmax(axis=1), classes)], labels)

    def total_epsilon(self, draws: int) -> float:
        """The pure epsilon of one label after `draws` independent draws: basic composition."""
        return arguments.count("draws", draws) * self.epsilon

    def ledger(self, draws: int) -> Ledger:
        """The ledger of `draws` independent draws: `draws` pure releases of the same labels."""
        return Ledger.of(repeat(Pure(self.epsilon), arguments.count("draws", draws)))

    def _respond(self, given: NDArray[np.number], classes: int) -> Classes:
        return respond(given.astype(np.int64), classes, self.epsilon, self.words)


@dataclass(frozen=True, slots=True)
class MemoisedLabelDP(Generic[Form]):
    """Noisy labels of a fixed data set, drawn once: epsilon is that of one draw, however often they are read.

    `MemoisedLabelDP.draw` makes one, without keeping the true labels. The guarantee holds if you draw only
    once in the data set's lifetime, so keep the result with the data.
    """

    epsilon: float
    labels: Form

    @classmethod
    def draw(cls, mechanism: LabelDP, labels: Form) -> MemoisedLabelDP[Form]:
        """Draws noisy labels once for the whole data set; `labels` as for `LabelDP`."""
        return cls(mechanism.epsilon, mechanism(labels))

    def __getitem__(self, rows: Rows) -> Form:
        """The noisy labels of the examples in `rows`: a slice, or an array of indices."""
        return self.labels[rows]

    def ledger(self) -> Ledger:
        """The ledger of one pure release."""
        return Ledger.of([Pure(self.epsilon)])


def _is_binary(values: NDArray[np.float64]) -> bool:
    shaped = values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1)
    return shaped and _only_bits(values)


def _is_one_hot(values: NDArray[np.float64]) -> bool:
    """Returns whether every single row, not only the average, holds exactly one 1 and otherwise 0."""
    shaped = values.ndim == 2 and values.shape[1] >= 2
    return shaped and _only_bits(values) and bool((values.sum(axis=1) == 1).all())


def _only_bits(values: NDArray[np.float64]) -> bool:
    return bool(((values == 0) | (values == 1)).all())
