"""A node's gradient steps: the rows of a batch, and its gradient.

Plain steps use all rows in a new order each epoch; private steps sample rows and noise the gradient, for
`privacy.mechanism = "dp-sgd"`; shared steps make a member's words for a sum of gradients, for
"distributed-dp-sgd". The optimiser does not depend on the kind of step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from mechanisms.gradients.clipped_sum import Batch
from mechanisms.gradients.dp_sgd import GradientRule, PrivateGradient, poisson_rows
from mechanisms.gradients.objective import Loss, Objective
from mechanisms.gradients.row_outputs import check_rows
from mechanisms.gradients.shared_noise import SharedGradient, SharedNoise
from mechanisms.gradients.side_effects import NotByRow, in_eval_mode
from mechanisms.gradients.stand_ins import choose_draw
from mechanisms.gradients.trial import BOOK_KEEPING
from mechanisms.noise.randomness import Words
from node.data.dataset import Dataset
from node.system.errors import ConfigError, reason
from node.task.shared_noise_keys import DISTRIBUTED
from node.training.batch_norm import BatchNorms

T = TypeVar("T")


class GradientSteps(Protocol):
    """The batches of an epoch, and the gradient of a batch."""

    def batches(self, rng: np.random.Generator) -> Iterator[torch.Tensor]:
        """Yields the row numbers (n,) int64 of each batch of an epoch; n may be 0."""

    def backward(self, rows: torch.Tensor) -> float:
        """Sets the parameters' gradients for these rows; returns their mean loss, which stays on the node."""

    def use(self, dataset: Dataset) -> None:
        """Takes other features of the same rows, of the shape of those it has."""

    def pop_not_finite(self) -> int:
        """Returns how often a row counted as zero since the last call, as its gradient was not finite."""

    @property
    def slow(self) -> str:
        """Why gradients take longer than they could; "" if they do not."""


MakeSteps = Callable[[nn.Module, Loss, Dataset, int], GradientSteps]
"""Makes the steps of a model with a loss on a data set, by batches of a size."""


class PlainSteps:
    """Uses every row once per epoch, `batch_size` at a time."""

    def __init__(self, model: nn.Module, loss: Loss, dataset: Dataset, batch_size: int) -> None:
        self._model = model
        self._loss = loss
        self._dataset = dataset
        self._batch_size = batch_size

    def batches(self, rng: np.random.Generator) -> Iterator[torch.Tensor]:
        """Yields batches in random order; a single last row joins the batch before, for batch norm."""
        rows = len(self._dataset.train_y)
        order = torch.from_numpy(rng.permutation(rows))
        starts = range(0, rows, self._batch_size)
        if self._batch_size > 1 and rows % self._batch_size == 1 and rows > 1:
            starts = starts[:-1]
        ends = [*starts[1:], rows]
        return (order[start:end] for start, end in zip(starts, ends, strict=True))

    def backward(self, rows: torch.Tensor) -> float:
        """Sets the gradients of the mean loss; returns this loss."""
        loss = self._loss(self._model(self._dataset.train_x[rows]), self._dataset.train_y[rows])
        loss.backward()
        return loss.item()

    def use(self, dataset: Dataset) -> None:
        """Takes other features of the same rows."""
        self._dataset = dataset

    def pop_not_finite(self) -> int:
        """Returns 0: a plain step uses each row as it is."""
        return 0

    @property
    def slow(self) -> str:
        """Returns ""."""
        return ""


class Sampled:
    """The rows of a Poisson sample: of rows, or of persons, each with all rows that are used."""

    def __init__(self, dataset: Dataset) -> None:
        of = dataset.together
        self._rows = dataset.units
        self.most = None if of is None else of.most
        """The most rows of a person; None where each row is sampled by itself."""
        self._persons = None if of is None else of.train
        self._by_person = self._ends = np.empty(0, np.int64)
        if self._persons is not None:
            self._by_person = torch.argsort(self._persons, stable=True).numpy()
            self._ends = np.bincount(self._persons.numpy(), minlength=self._rows).cumsum()

    def rows(self, probability: float, words: Words) -> torch.Tensor:
        """Returns the numbers of the rows (n,) of a new sample."""
        drawn = poisson_rows(self._rows, probability, words)
        if self._persons is None:
            return torch.from_numpy(drawn)
        parts = [self._by_person[self._ends[one - 1] if one else 0 : self._ends[one]] for one in drawn]
        return torch.from_numpy(np.concatenate([self._by_person[:0], *parts]))

    def persons(self, rows: torch.Tensor) -> torch.Tensor | None:
        """Returns whose rows (n,) these are; None where each row is sampled by itself."""
        return None if self._persons is None else self._persons[rows]


class PrivateSteps:
    """As many steps per epoch as PlainSteps, each by `rule` on a Poisson sample.

    A sample has `batch_size` rows (persons) in the mean. All trainable parameters get noise, even those that
    are not shared: what they learn of one row would affect the others' gradients. `words`: secret, for
    samples and noise, independent of the run's seed. Raises ConfigError for a model without gradients of
    single rows.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        dataset: Dataset,
        batch_size: int,
        rule: GradientRule,
        words: Words,
    ) -> None:
        self._dataset = dataset
        self._rule = rule
        self._words = words
        rows = dataset.units
        self._steps = math.ceil(rows / batch_size)
        self._sampled = Sampled(dataset)
        self._not_finite = 0
        self._gradient = _made(
            lambda: PrivateGradient(
                objective=_objective(model, loss, dataset),
                rule=rule,
                most_rows=rows,
                expected_rows=rule.sampling_probability * rows,
                rows_per_person=self._sampled.most,
            ),
            "dp-sgd",
        )

    @property
    def slow(self) -> str:
        """Why book-keeping does not compute the gradients of single rows; "" if it does."""
        return "" if self._gradient.method == BOOK_KEEPING else self._gradient.method

    def batches(self, rng: np.random.Generator) -> Iterator[torch.Tensor]:
        """Yields independent samples; a row may be in none of them, or in several."""
        for _ in range(self._steps):
            yield self._sampled.rows(self._rule.sampling_probability, self._words)

    def backward(self, rows: torch.Tensor) -> float:
        """Sets clipped and noised gradients; returns the mean loss."""
        with _by_row("dp-sgd"):
            batch = self._gradient(
                self._dataset.train_x[rows],
                self._dataset.train_y[rows],
                self._words,
                self._sampled.persons(rows),
            )
        self._not_finite += batch.not_finite
        return batch.mean_loss

    def use(self, dataset: Dataset) -> None:
        """Takes other features of the same rows."""
        self._dataset = dataset

    def pop_not_finite(self) -> int:
        """Returns how often a row counted as zero since the last call, as its gradient was not finite."""
        counted, self._not_finite = self._not_finite, 0
        return counted


def steps_by(rule: GradientRule | None, words: Words) -> MakeSteps:
    """Returns what makes private steps by `rule`, with samples and noise from `words`; None: plain ones."""
    return PlainSteps if rule is None else partial(PrivateSteps, rule=rule, words=words)


class SharedSteps:
    """A member's words for steps whose noise all members share (mechanisms.gradients.shared_noise)."""

    def __init__(
        self, model: nn.Module, loss: Loss, dataset: Dataset, rule: SharedNoise, words: Words
    ) -> None:
        """Raises ConfigError for a model without gradients of single rows, or too many rows."""
        self._dataset = dataset
        self._rule = rule
        self._words = words
        self._sampled = Sampled(dataset)
        rows, batch = dataset.units, rule.expected_batch
        q = rule.gradient.sampling_probability
        if q * rows > batch:
            what = "rows" if self._sampled.most is None else "persons"
            raise ConfigError(
                f"train.expected_batch = {batch:g} is refused with the {rows} {what} of this node alone, of "
                f"which a step has {q * rows:.6g}: the sum has no room for more; allowed: at least the "
                f"{what} of all members in a step"
            )
        _check_independent(model, dataset.train_x[:1])
        self._gradient = _made(
            lambda: SharedGradient(_objective(model, loss, dataset), rule, rows, self._sampled.most),
            DISTRIBUTED,
        )

    @property
    def slow(self) -> str:
        """Why book-keeping does not compute the gradients of single rows; "" if it does."""
        return "" if self._gradient.method == BOOK_KEEPING else self._gradient.method

    def use(self, dataset: Dataset) -> None:
        """Takes other features of the same rows."""
        self._dataset = dataset

    def offer(self) -> tuple[NDArray[np.uint32], Batch]:
        """Returns the words (d,) of a new sample, and what stays on this node."""
        rows = self._sampled.rows(self._rule.gradient.sampling_probability, self._words)
        with _by_row(DISTRIBUTED):
            return self._gradient.offer(
                self._dataset.train_x[rows],
                self._dataset.train_y[rows],
                self._words,
                self._sampled.persons(rows),
            )


def _check_independent(model: nn.Module, row: torch.Tensor) -> None:
    """Raises ConfigError if outputs for rows like `row` (1, ...) depend on the other rows in their batch."""
    with in_eval_mode(model), torch.no_grad():
        try:
            choose_draw(lambda draw: check_rows(model, row, draw))
        except NotByRow as error:
            raise ConfigError(
                f"model.class: with privacy.mechanism = {DISTRIBUTED!r} each row is learned by itself, and "
                f"{error}"
            ) from error


def _objective(model: nn.Module, loss: Loss, dataset: Dataset) -> Objective:
    """Returns what is differentiated: the loss of a row in all trainable parameters."""
    BatchNorms(model).begin_training()
    return Objective(
        model=model,
        parameters={name: p for name, p in model.named_parameters() if p.requires_grad},
        loss=_cross_entropy if loss is functional.cross_entropy else loss,
        row=(dataset.train_x[:1], dataset.train_y[:1]),
    )


def _made(make: Callable[[], T], mechanism: str) -> T:
    """Calls `make`. Raises ConfigError if the model has no gradients of single rows."""
    with _by_row(mechanism, ValueError, TypeError, RuntimeError, IndexError):
        return make()


@contextmanager
def _by_row(mechanism: str, *kinds: type[Exception]) -> Iterator[None]:
    """Raises ConfigError for NotByRow and these `kinds` of errors."""
    known: tuple[type[Exception], ...] = (NotByRow, *kinds)
    try:
        yield
    except known as error:
        raise ConfigError(
            f"model.class: privacy.mechanism = {mechanism!r} needs the gradient of each row: {reason(error)}"
        ) from error


def _cross_entropy(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of logits (n, k) and labels (n,); for one row bit-identical to torch's, as its gradient.

    Under vmap torch decomposes its own function in Python, which imports sympy: most of a second per peer.
    """
    return -torch.log_softmax(outputs, 1).gather(1, targets.unsqueeze(1)).mean()
