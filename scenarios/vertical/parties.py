"""The two parties of vertical learning: their data, and how each processes the messages of the other.

    follower   its own columns ──▶ outputs (n, 2) ──▶ leader         and takes the gradients in them
    leader     its own columns, the labels; learns from the outputs, and gives the gradients in them

Neither party sees the other's columns. The follower sees no label, only what the gradients reveal about them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from node.data.partition import RowNumbers
from node.system.errors import UserError
from scenarios.data.criteo import Criteo, Fields
from scenarios.vertical.wide_deep import SCALARS, Descent, Learner, Sizes, drawn_bottom, drawn_top

Floats = NDArray[np.float32]

_ORDER, _LEADER, _FOLLOWER, _TOP = 51, 52, 53, 54  # streams of random numbers: [one of these, seed, ...]


# -- the parties' data -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FollowerRows:
    """The follower's columns of the training rows and of the evaluated rows."""

    train: Fields
    evaluated: Fields


@dataclass(frozen=True)
class LeaderRows:
    """The leader's columns of the same rows, and their labels: (n,), 0 or 1."""

    train: Fields
    evaluated: Fields
    labels: NDArray[np.int64]
    evaluated_labels: NDArray[np.int64]


def dealt(rows: Criteo) -> tuple[LeaderRows, FollowerRows]:
    """Divide the data between the parties. The model is evaluated on the dev and test rows together."""
    train, dev, test = rows.train, rows.dev, rows.test
    labels = np.concatenate([dev.labels, test.labels])
    leader = LeaderRows(train.leader, _below(dev.leader, test.leader), train.labels, labels)
    return leader, FollowerRows(train.follower, _below(dev.follower, test.follower))


def _below(one: Fields, other: Fields) -> Fields:
    ids = np.concatenate([one.ids, other.ids])
    return Fields(ids, np.concatenate([one.weights, other.weights]), one.vocabulary)


# -- shared knowledge --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """The rows (n,) whose outputs the leader needs next: training rows if `learning`, else evaluated rows."""

    epoch: int
    step: int
    learning: bool
    rows: RowNumbers


@dataclass(frozen=True)
class Plan:
    """The plan that both parties know: the numbers of rows, and their order."""

    training: int
    evaluated: int
    epochs: int
    batch_size: int
    seed: int

    def requests(self) -> Iterator[Request]:
        """All requests of the run, in order: per epoch shuffled training rows, then the evaluated rows."""
        for epoch in range(1, self.epochs + 1):
            order = np.random.default_rng([_ORDER, self.seed, epoch]).permutation(self.training)
            yield from self._batches(epoch, True, order)
            yield from self._batches(epoch, False, np.arange(self.evaluated))

    def _batches(self, epoch: int, learning: bool, rows: RowNumbers) -> Iterator[Request]:
        for step, start in enumerate(range(0, len(rows), self.batch_size), start=1):
            yield Request(epoch, step, learning, rows[start : start + self.batch_size])


@dataclass(frozen=True)
class Network:
    """The model and its optimisers; `seed` determines the initial weights."""

    sizes: Sizes
    descent: Descent
    seed: int


# -- the follower ------------------------------------------------------------------------------------------


Protect = Callable[[Tensor], Tensor]
"""A function that the follower applies to its outputs (n, 2) before it sends them."""


def as_they_are(outputs: Tensor) -> Tensor:
    """Return the outputs without protection."""
    return outputs


class Follower:
    """The party without labels. It uses gradients in the protected outputs as those in the original ones."""

    def __init__(self, rows: FollowerRows, network: Network, protect: Protect) -> None:
        self._rows = {True: _Columns(rows.train), False: _Columns(rows.evaluated)}
        seed = (_FOLLOWER, network.seed)
        bottom = drawn_bottom(rows.train.vocabulary, rows.train.ids.shape[1], network.sizes, seed)
        self._learner = Learner(bottom, network.descent, ())
        self._protect = protect
        self._sent: Tensor | None = None

    def answer(self, request: Request, gradients: Floats) -> Floats:
        """Learn from `gradients` (m, 2) if the previous outputs were for learning; return new outputs (n, 2).

        Raises UserError if the outputs are no longer finite.
        """
        if self._sent is not None:
            self._learner.learn(self._sent, torch.tensor(gradients))
        with torch.set_grad_enabled(request.learning):
            outputs = self._learner.bottom(*self._rows[request.learning].of(request.rows))
        self._sent = outputs if request.learning else None
        if not bool(outputs.isfinite().all()):
            raise diverged(request.epoch)
        left: Floats = self._protect(outputs.detach()).numpy()
        return left


class _Columns:
    """A party's columns as tensors."""

    def __init__(self, fields: Fields) -> None:
        self._ids, self._weights = torch.tensor(fields.ids), torch.tensor(fields.weights)

    def of(self, rows: RowNumbers) -> tuple[Tensor, Tensor]:
        """The ids and weights, (n, fields) each, of rows (n,)."""
        chosen = torch.from_numpy(rows)
        return self._ids[chosen], self._weights[chosen]


def diverged(epoch: int) -> UserError:
    """The error for outputs or losses that are not finite."""
    return UserError(f"training diverged in epoch {epoch}; lower train.learning_rate")


# -- the leader --------------------------------------------------------------------------------------------


class LabelSource(Protocol):
    """The labels that the leader trains on."""

    def __getitem__(self, rows: RowNumbers) -> NDArray[np.floating]:
        """The labels (n,) of rows (n,)."""


@dataclass(frozen=True)
class Step:
    """The results of a step: the gradients (n, 2) in the follower's outputs, and two losses before the step.

    Both losses are mean cross entropies, one with the labels trained on, one with the true labels.
    """

    gradients: Floats
    loss: float
    true_loss: float


class Leader:
    """The party with the labels. It trains on the labels of `source` and also reports with the true ones."""

    def __init__(self, rows: LeaderRows, network: Network, source: LabelSource) -> None:
        self._rows = {True: _Columns(rows.train), False: _Columns(rows.evaluated)}
        self._labels = torch.tensor(rows.labels, dtype=torch.float32)
        self._source = source
        self._top = drawn_top((_TOP, network.seed))
        seed = (_LEADER, network.seed)
        bottom = drawn_bottom(rows.train.vocabulary, rows.train.ids.shape[1], network.sizes, seed)
        self._learner = Learner(bottom, network.descent, self._top.parameters())

    def learn(self, request: Request, outputs: Floats) -> Step:
        """Do a step with the follower's `outputs` (n, 2). Raises UserError for a loss that is not finite."""
        received, gradients = torch.tensor(outputs, requires_grad=True), torch.zeros(outputs.shape)
        received.grad = gradients  # the backward pass adds to it
        logits = self._logits(request, received)
        noisy = torch.tensor(self._source[request.rows], dtype=torch.float32)
        loss = functional.binary_cross_entropy_with_logits(logits, noisy)
        if not math.isfinite(loss.item()):
            raise diverged(request.epoch)
        true = self._labels[torch.from_numpy(request.rows)]
        true_loss = functional.binary_cross_entropy_with_logits(logits.detach(), true).item()
        self._learner.learn(loss, torch.ones(()))
        return Step(gradients.numpy(), loss.item(), true_loss)

    def logits(self, request: Request, outputs: Floats) -> Floats:
        """The logits (n,) of evaluated rows, with the follower's `outputs` (n, 2)."""
        with torch.no_grad():
            logits: Floats = self._logits(request, torch.tensor(outputs)).numpy()
        return logits

    def _logits(self, request: Request, received: Tensor) -> Tensor:
        own = self._learner.bottom(*self._rows[request.learning].of(request.rows))
        logits: Tensor = self._top(torch.cat([own, received], dim=1)).squeeze(1)
        return logits


NO_GRADIENTS: Floats = np.zeros((0, SCALARS), np.float32)
"""The gradients that go out with the first request, and after evaluated rows."""
