"""Label differential privacy by randomised response (Ghazi et al. 2021, Algorithm 1 with k = all classes).

Unit of privacy: the label of one example. Neighbouring: the same examples, one label replaced. Pure
epsilon, no delta. The features are not protected, nor is the set of examples. What is trained on the noisy
labels, however often, costs nothing more; drawing afresh from the true labels does (`total_epsilon`), and
so does a loss that is computed from the true labels and shown: it is a release of its own.

Randomised response keeps a class with probability e^eps / (n - 1 + e^eps) and turns it into each other one
with 1 / (n - 1 + e^eps) (Warner 1965 for two classes; Kairouz, Oh, Viswanath 2014 for n). The probabilities
are multiples of 2^-64, and each other class gets the same number c of the 2^64 words, rounded up: the ratio
(2^64 - (n - 1) c) / c never exceeds e^eps. So a very large epsilon is honoured with less: 100 is truly 44.4.
At epsilon 0 (or below 1e-14) the ratio is 1 + n^2 2^-63 at most, as 2^64 words can not always be dealt out
evenly.
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
from mechanisms.noise.randomness import SystemWords, Words

Classes = NDArray[np.int64]

_WORDS = 1 << 64
_ROUNDING = 1.0 + 2.0**-48  # more than the error of e^eps and of the division in double precision

Form = TypeVar("Form", NDArray[Any], torch.Tensor)
_NUMERIC = "biuf"  # booleans, integers, floats; neither complex numbers nor objects
LARGEST_EPSILON = 100.0
Rows = slice | NDArray[np.int64]
_ALLOWED = "0 and 1 in shape (n,) or (n, 1), or one-hot rows in shape (n, classes)"


def words_for_another(epsilon: float, classes: int) -> int:
    """c: how many of the 2^64 words turn a class into one certain other class."""
    wanted = math.ceil(2.0**64 * _ROUNDING / (classes - 1 + math.exp(epsilon)))
    return min(wanted, _WORDS // classes)


def respond(given: Classes, classes: int, epsilon: float, words: Words) -> Classes:
    """(n,) classes in 0 .. `classes` - 1 to (n,) of the same, each kept or changed on its own.

    Unit of privacy: one entry; neighbours differ in that entry (replace); pure epsilon >= 0. The caller
    has judged the arguments: entries within range, `classes` at least 2.
    """
    share = words_for_another(epsilon, classes)
    drawn = uniform64(len(given), words)
    other = (drawn // np.uint64(share)).astype(np.int64)  # which of the n - 1 others, if it is to change
    other += other >= given
    return np.where(drawn < np.uint64((classes - 1) * share), other, given)


def uniform64(count: int, words: Words) -> NDArray[np.uint64]:
    """(count,) independent uniform words of 64 bits."""
    halves = np.empty(2 * count, dtype=np.uint32)
    words.fill(halves)
    return halves.view(np.uint64)


def as_float64(name: str, array: object) -> NDArray[np.float64]:
    """The values of a numpy array or a torch tensor of any shape; TypeError for anything else."""
    if isinstance(array, torch.Tensor) and not array.is_complex():
        return array.detach().to("cpu", torch.float64).numpy()
    if isinstance(array, np.ndarray) and array.dtype.kind in _NUMERIC:
        return array.astype(np.float64)
    kind = array.dtype if isinstance(array, (np.ndarray, torch.Tensor)) else type(array).__name__
    raise TypeError(f"{name} of {kind} are not allowed: a numpy array or a torch tensor of real numbers")


def like(values: NDArray[np.float64], form: Form) -> Form:
    """`values` as an array or tensor with the type (and, for a tensor, on the device) of `form`."""
    if isinstance(form, torch.Tensor):
        return torch.from_numpy(values).to(form.device, form.dtype)
    return values.astype(form.dtype)


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
