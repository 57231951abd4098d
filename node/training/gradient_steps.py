"""How a node's gradient steps are made: which rows are in a batch, and what gradient it gives.

Plain steps go through all rows in a new order; private ones sample rows and noise the gradient, as
`privacy.mechanism = "dp-sgd"` asks. The optimiser does not know which.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from mechanisms.gradients.dp_sgd import GradientRule, poisson_rows, private_gradient
from mechanisms.gradients.per_example import clipped_sum
from mechanisms.noise.randomness import Words
from node.data.dataset import Dataset
from node.errors import ConfigError, reason
from node.training.batch_norm import BatchNorms

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class GradientSteps(Protocol):
    """An epoch's batches, and the gradient of one."""

    def batches(self, rng: np.random.Generator) -> Iterator[torch.Tensor]:
        """Row numbers (n,) int64 of each batch of an epoch; n may be 0."""

    def backward(self, rows: torch.Tensor) -> float:
        """Set the parameters' gradients for these rows; their mean loss, which never leaves the node."""


class PlainSteps:
    """Every row once an epoch, `batch_size` at a time."""

    def __init__(self, model: nn.Module, loss: Loss, dataset: Dataset, batch_size: int) -> None:
        self._model = model
        self._loss = loss
        self._dataset = dataset
        self._batch_size = batch_size

    def batches(self, rng: np.random.Generator) -> Iterator[torch.Tensor]:
        """In the order that `rng` gives; a last single row joins the batch before, for batch norm's sake."""
        rows = len(self._dataset.train_y)
        order = torch.from_numpy(rng.permutation(rows))
        starts = range(0, rows, self._batch_size)
        if self._batch_size > 1 and rows % self._batch_size == 1 and rows > 1:
            starts = starts[:-1]
        ends = [*starts[1:], rows]
        return (order[start:end] for start, end in zip(starts, ends, strict=True))

    def backward(self, rows: torch.Tensor) -> float:
        """Of the mean loss."""
        loss = self._loss(self._model(self._dataset.train_x[rows]), self._dataset.train_y[rows])
        loss.backward()
        return loss.item()


class PrivateSteps:
    """As many steps an epoch, each on a Poisson sample of `batch_size` rows on average, by `rule`.

    All trainable parameters are noised, also those that are not shared: what they learn of one row would
    show in the others' gradients. `words`: secret, for samples and noise; the run's seed has no part in it.
    ConfigError for a model that has no gradient of a single row.
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
        self._model = model
        self._loss = _cross_entropy if loss is functional.cross_entropy else loss
        self._dataset = dataset
        self._rule = rule
        self._words = words
        self._steps = math.ceil(len(dataset.train_y) / batch_size)
        self._parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
        self._try()

    def _try(self) -> None:
        """One row's gradient, thrown away: what can not be trained so is found before anything is written."""
        x, y = self._dataset.train_x[:1], self._dataset.train_y[:1]
        try:
            BatchNorms(self._model).begin_training()
            clipped_sum(self._model, self._parameters, self._loss, x, y, self._rule.clipping_radius)
        except (ValueError, TypeError, RuntimeError) as error:
            raise ConfigError(
                f"model.class: privacy.mechanism = 'dp-sgd' needs the gradient of each row: {reason(error)}"
            ) from error

    def batches(self, rng: np.random.Generator) -> Iterator[torch.Tensor]:
        """Independent samples; a row may be in none of them, or in several."""
        rows, probability = len(self._dataset.train_y), self._rule.sampling_probability
        for _ in range(self._steps):
            yield torch.from_numpy(poisson_rows(rows, probability, self._words))

    def backward(self, rows: torch.Tensor) -> float:
        """Of clipped and noised gradients."""
        x, y = self._dataset.train_x[rows], self._dataset.train_y[rows]
        expected = self._rule.sampling_probability * len(self._dataset.train_y)
        return private_gradient(
            self._model, self._parameters, self._loss, x, y, self._rule, expected, self._words
        )


def _cross_entropy(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Torch's, of logits (n, k) and labels (n,); of one row the same to the bit, and so is its gradient.

    Under vmap torch's own is taken apart in Python, which loads sympy first: most of a second for each peer.
    """
    return -torch.log_softmax(outputs, 1).gather(1, targets.unsqueeze(1)).mean()
