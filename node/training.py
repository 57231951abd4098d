"""Local training in torch, between flat vectors."""

from __future__ import annotations

import copy
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from mechanisms.clipping import NotFinite
from mechanisms.dp_sgd import GradientRule
from mechanisms.randomness import Words
from node.config import TrainSection
from node.data import Dataset
from node.errors import ConfigError, UserError, shown
from node.optimizers import make_optimizer
from node.restraint import Held, Restraint
from node.steps import PlainSteps, PrivateSteps, Steps

Vector = NDArray[np.float32]
Shapes = list[tuple[str, tuple[int, ...]]]

_EVALUATED_ROWS = 4096  # at once, to bound memory


class Interrupted(Exception):
    """Training was asked to stop before its end; what it had learnt is dropped."""


class Diverged(UserError):
    """Training left the finite numbers."""


@dataclass(frozen=True)
class Trained:
    """A round's training: the new working model (d,), mean loss of the last epoch, seconds."""

    vector: Vector
    loss: float
    seconds: float


@dataclass(frozen=True)
class Evaluation:
    """On the test rows: the mean loss, and the share of rows that were right.

    For targets that are numbers accuracy is the coefficient of determination, R^2.
    """

    accuracy: float
    loss: float


def shapes(model: nn.Module, pattern: str) -> Shapes:
    """Names and shapes of the trainable parameters that `pattern` matches, in the vector's order.

    `pattern` is a shell-style one such as "*" or "layers.0.*". Raises ConfigError if none matches.
    """
    return [(name, tuple(parameter.shape)) for name, parameter in _matching(model, pattern)]


def read_vector(model: nn.Module, pattern: str) -> Vector:
    """A copy of the parameters that `pattern` matches, as one vector (d,)."""
    parts = [parameter.detach().numpy().ravel() for _, parameter in _matching(model, pattern)]
    return np.concatenate(parts).astype(np.float32, copy=False)


def write_vector(model: nn.Module, vector: Vector, pattern: str) -> None:
    """Copy `vector` (d,) into the parameters that `pattern` matches."""
    parts = split_vector(vector, shapes(model, pattern))
    for name, parameter in _matching(model, pattern):
        parameter.detach().numpy()[...] = parts[name]  # through numpy: `vector` may be read-only


def split_vector(vector: Vector, shapes: Sequence[tuple[str, tuple[int, ...]]]) -> dict[str, Vector]:
    """Views of `vector` (d,) as named arrays of the given `shapes`; ValueError if d is not theirs."""
    sizes = [prod(shape) for _, shape in shapes]
    if vector.shape != (sum(sizes),):
        raise ValueError(f"a vector of shape {vector.shape} for {sum(sizes)} parameters")
    parts = np.split(vector, np.cumsum(sizes)[:-1])
    return {name: part.reshape(shape) for (name, shape), part in zip(shapes, parts, strict=True)}


def _matching(model: nn.Module, pattern: str) -> list[tuple[str, nn.Parameter]]:
    """Trainable parameters by name; what is frozen is alike everywhere and is not sent."""
    trainable = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
    matching = [(name, value) for name, value in trainable if fnmatchcase(name, pattern)]
    if not matching:
        names = ", ".join(name for name, _ in trainable)
        raise ConfigError(
            f"train.parameters = {shown(pattern)} matches none of the model's parameters; it has: "
            f"{shown(names)}"
        )
    return matching


class Trainer:
    """Trains one model on one node's rows; one call at a time, further ones wait.

    Parameters that `section.parameters` does not match are trained too and stay in the model, from
    round to round. Torch's own generator is not drawn from here; layers such as dropout do so.
    """

    def __init__(
        self,
        model: nn.Module,
        section: TrainSection,
        dataset: Dataset,
        seed: int | tuple[int, ...],
        gradient: GradientRule | None,
        words: Words,
        restraint: Restraint | None = None,
    ) -> None:
        """`gradient`: how private steps are made, with noise and samples from `words`; None: plain ones.

        `restraint`: what a server's mechanism asks of its clients; None: nothing.
        """
        self._model = model
        self._section = section
        self._dataset = dataset
        self._seed = seed if isinstance(seed, tuple) else (seed,)
        self._restraint = restraint
        self._loss = _loss_of(dataset)
        self._steps: Steps = PlainSteps(model, self._loss, dataset, section.batch_size)
        if gradient is not None:
            parts = (model, self._loss, dataset, section.batch_size)
            self._steps = PrivateSteps(*parts, gradient, words)
        self._busy = threading.Lock()

    def vector(self) -> Vector:
        """A copy of the model's parameters (d,) as they are."""
        return read_vector(self._model, self._section.parameters)

    def train(self, working: Vector, round_number: int, stop: threading.Event) -> Trained:
        """Train `working` (d,) for the section's epochs, with a fresh optimiser.

        The order of the rows follows from (seed, round_number). Raises Interrupted soon after `stop`
        is set, Diverged when the result is not finite.
        """
        with self._busy:
            begun = time.perf_counter()
            write_vector(self._model, working, self._section.parameters)
            try:
                loss = self._run_epochs(np.random.default_rng([*self._seed, round_number]), stop)
            except NotFinite:
                loss = math.nan
            vector = read_vector(self._model, self._section.parameters)
        if math.isnan(loss) or not np.isfinite(vector).all():
            raise Diverged(
                f"training diverged in round {round_number}, the loss is {loss:g}; lower "
                f"train.learning_rate = {self._section.learning_rate:g} or set train.grad_clip"
            )
        return Trained(vector, loss, time.perf_counter() - begun)

    def evaluate(self, vector: Vector) -> Evaluation:
        """How `vector` (d,) does on the dataset's test rows."""
        with self._busy:
            write_vector(self._model, vector, self._section.parameters)
            outputs = self._outputs(self._dataset.test_x)
        targets = self._dataset.test_y
        return Evaluation(_accuracy(outputs, targets), float(self._loss(outputs, targets)))

    def own_loss(self, vector: Vector) -> float:
        """The mean loss of `vector` (d,) on the training rows, which are all this node's own."""
        with self._busy:
            write_vector(self._model, vector, self._section.parameters)
            return float(self._loss(self._outputs(self._dataset.train_x), self._dataset.train_y))

    def module(self, vector: Vector) -> nn.Module:
        """A copy of the model with `vector` (d,) in it, for use; what is not shared is this node's own."""
        with self._busy:
            write_vector(self._model, vector, self._section.parameters)
            return copy.deepcopy(self._model).eval().requires_grad_(False)

    def _run_epochs(self, rng: np.random.Generator, stop: threading.Event) -> float:
        """Train the model in place; the mean loss of the last epoch."""
        self._model.train()
        self._model.zero_grad()
        parameters = [value for value in self._model.parameters() if value.requires_grad]
        optimizer = make_optimizer(parameters, self._section)
        held = None if self._restraint is None else Held(self._restraint, parameters)
        loss = 0.0
        for _ in range(self._section.epochs):
            loss = self._run_epoch(optimizer, parameters, held, rng, stop)
        return loss

    def _run_epoch(
        self,
        optimizer: torch.optim.Optimizer,
        parameters: Sequence[nn.Parameter],
        held: Held | None,
        rng: np.random.Generator,
        stop: threading.Event,
    ) -> float:
        """One pass over the rows; their mean loss."""
        total, seen = 0.0, 0
        for rows in self._steps.batches(rng):
            if stop.is_set():
                raise Interrupted
            total += self._steps.backward(rows) * len(rows)
            seen += len(rows)
            if held is not None:
                held.pull()
            if self._section.grad_clip is not None:
                nn.utils.clip_grad_norm_(parameters, self._section.grad_clip)
            optimizer.step()
            optimizer.zero_grad()
            if held is not None:
                held.settle()
        return total / max(1, seen)

    def _outputs(self, rows: torch.Tensor) -> torch.Tensor:
        """What the model answers to `rows` (n, ...), batch by batch."""
        self._model.eval()
        with torch.inference_mode():
            return torch.cat([self._model(batch) for batch in rows.split(_EVALUATED_ROWS)])


def _loss_of(dataset: Dataset) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Mean loss of outputs (n, ...) against targets (n,)."""
    return functional.cross_entropy if dataset.classes is not None else _squared_error


def _squared_error(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean squared error of outputs (n,) or (n, 1)."""
    return functional.mse_loss(outputs.reshape(targets.shape), targets)


def _accuracy(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """The share of rows that are right, or R^2 for targets that are numbers."""
    if not targets.is_floating_point():
        return float((outputs.argmax(1) == targets).float().mean())
    spread = float(((targets - targets.mean()) ** 2).mean())
    return 1 - float(_squared_error(outputs, targets)) / max(spread, 1e-12)
