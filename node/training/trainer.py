"""Local training in torch, from one flat vector of parameters to the next."""

from __future__ import annotations

import copy
import itertools
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from mechanisms.gradients.dp_sgd import GradientRule
from mechanisms.noise.clipping import NotFinite
from mechanisms.noise.randomness import SystemWords
from node.data.dataset import Dataset
from node.models.additive import Additive
from node.system.clock import CLOCK, Clock
from node.system.errors import UserError, reason
from node.system.system import SYSTEM, System
from node.task.sections import Task, TrainSection
from node.training.at_once import parts
from node.training.batch_norm import BatchNorms
from node.training.devices import find_device, within_memory
from node.training.figures.class_figures import ClassFigures, class_figures, no_class_figures
from node.training.figures.column_curves import Curves
from node.training.figures.curves import curves
from node.training.figures.flaws import flaws_of
from node.training.figures.headline import Headline
from node.training.figures.metrics import accuracy_of, chosen_metrics, headline_of, measured
from node.training.frozen_body import FrozenBody
from node.training.gradient_steps import MakeSteps, steps_by
from node.training.local_tensors import Array, LocalTensors, whole_model
from node.training.losses import Loss, answers, check_counts, check_loss, make_loss, uniform_loss
from node.training.optimizers import Stepping, check_optimizer, make_optimizer
from node.training.parameter_scope import (
    choose_trained,
    digest_of,
    fixed_bytes,
    fixed_parameters,
    left_out_of_files,
    matching,
)
from node.training.proximal import Held, ProximalTerm
from node.training.schedules import make_schedule

Vector = NDArray[np.float32]
Shapes = list[tuple[str, tuple[int, ...]]]

_EVALUATED_ROWS = 4096


class Interrupted(Exception):
    """Training stopped early on request; its result is discarded."""


class NoResult(UserError):
    """A round of training has no result.

    `what` it did, and the `remedy`, for an owner whose node goes on; `seconds`: how long it took.
    """

    def __init__(self, text: str, what: str, remedy: str, seconds: float = 0.0) -> None:
        super().__init__(text)
        self.what, self.remedy, self.seconds = what, remedy, seconds


class Diverged(NoResult):
    """Training produced values that are not finite. `remedy`: what the owner can do. `seconds`: it took."""

    def __init__(self, why: str, remedy: str, seconds: float = 0.0) -> None:
        look = f"{remedy}, and look for huge values in the data"
        super().__init__(f"{why}; {remedy}", "gave values that are not finite", look, seconds)


@dataclass(frozen=True)
class Trained:
    """The result of a round's training: the new working model (d,), its mean loss, seconds.

    `loss`: of the last whole epoch; if the time allowed for none, of the batches there were; None if the
    model does not say. `not_finite`: how often a row counted as zero because its gradient was not finite. It
    stays on the node.
    """

    vector: Vector
    loss: float | None
    seconds: float
    not_finite: int = 0


@dataclass(frozen=True)
class Evaluation:
    """The results on the test rows: accuracy (share of correct rows), mean loss, and the requested metrics.

    For numeric targets accuracy is None. A metric that is undefined for these rows is None. If the rows are
    too few for any figure, the loss is None, and there are no metrics.
    """

    accuracy: float | None
    loss: float | None
    metrics: Mapping[str, float | None]
    headline: Headline
    flaws: tuple[str, ...] = ()
    """What is wrong with the model on these rows, in words."""
    classes: Callable[[], ClassFigures | None] = field(default=no_class_figures, compare=False, repr=False)
    """Says the same class by class; of few rows when it is called, since most rounds nobody looks."""

    @property
    def score(self) -> float:
        """The accuracy; for numeric targets the headline, 0 if it is not defined."""
        return (self.headline.value or 0.0) if self.accuracy is None else self.accuracy


def no_evaluation(names: Sequence[str]) -> Evaluation:
    """Returns what is known of a model on rows that are too few to say anything; `names`: of the metrics."""
    return Evaluation(None, None, {}, Headline(names[0], None, None))


def evaluated(
    section: TrainSection,
    loss: Loss,
    metrics: Sequence[str],
    outputs: torch.Tensor,
    targets: torch.Tensor,
    names: Sequence[str],
    unit: float,
    train_y: torch.Tensor | None = None,
) -> Evaluation:
    """Returns what `loss` and `metrics` say of outputs (n, ...) for targets (n,).

    `names` are those of the classes; `unit` is the size of one unit of numeric targets; with the targets of
    the rows trained on (k,), it also says what is so class by class.
    """
    own, uniform = float(loss(outputs, targets)), uniform_loss(section, loss, outputs, targets)
    said, wanted = answers(section, outputs).cpu(), targets.cpu()
    found = measured(metrics, said, wanted, unit)
    headline = headline_of(found, said, wanted, names, unit)
    flaws = flaws_of(headline, said, wanted, names, own, uniform)
    classes = no_class_figures if train_y is None else class_figures(said, wanted, train_y, names)
    return Evaluation(accuracy_of(said, wanted), own, found, headline, flaws, classes)


class VectorModel(Protocol):
    """What a node needs of a model: what a vector (d,) of its numbers means to the node's owner."""

    def vector(self) -> Vector:
        """Returns the common initial vector (d,)."""

    def evaluate(self, vector: Vector) -> Evaluation:
        """Evaluates `vector` (d,)."""

    def own_loss(self, vector: Vector) -> float:
        """Returns the mean loss of `vector` (d,) on this node's own rows."""

    def tensors(self, vector: Vector) -> dict[str, Array]:
        """Returns the tensors to write for `vector` (d,), by name."""

    def made(self, vector: Vector) -> str:
        """Returns what sums made of the model with `vector` (d,), in words; empty if its figures say it."""


class LocalModel(VectorModel, Protocol):
    """A model that a node trains by itself, from the working vector (d,) to the next one."""

    def train(
        self, working: Vector, round_number: int, stop: threading.Event, own: int | None = None
    ) -> Trained:
        """Returns the next working vector (d,); raises Interrupted soon after `stop`, or a UserError.

        `round_number` is that of the run, which a schedule follows. `own`: which of this node's own rounds it
        is, as one round of the run may take several; None: the same.
        """


def shapes(model: nn.Module, pattern: str) -> Shapes:
    """Returns names and shapes of the trainable parameters that `pattern` matches, in the vector's order.

    `pattern` is a shell-style pattern such as "*" or "layers.0.*". Raises ConfigError if none matches.
    """
    return [(name, tuple(parameter.shape)) for name, parameter in matching(model, pattern)]


def read_vector(model: nn.Module, pattern: str) -> Vector:
    """Returns a copy of the parameters that `pattern` matches, as one vector (d,)."""
    parts = [parameter.detach().cpu().numpy().ravel() for _, parameter in matching(model, pattern)]
    return np.concatenate(parts).astype(np.float32, copy=False)


def write_vector(model: nn.Module, vector: Vector, pattern: str) -> None:
    """Copies `vector` (d,) into the parameters that `pattern` matches."""
    parts = split_vector(vector, shapes(model, pattern))
    for name, parameter in matching(model, pattern):
        part = parts[name]
        parameter.detach().copy_(torch.from_numpy(part if part.flags.writeable else part.copy()))


def split_vector(vector: Vector, shapes: Sequence[tuple[str, tuple[int, ...]]]) -> dict[str, Vector]:
    """Returns views of `vector` (d,) as named arrays of `shapes`; raises ValueError if d does not fit."""
    sizes = [prod(shape) for _, shape in shapes]
    if vector.shape != (sum(sizes),):
        raise ValueError(f"a vector of shape {vector.shape} for {sum(sizes)} parameters")
    parts = np.split(vector, np.cumsum(sizes)[:-1])
    return {name: part.reshape(shape) for (name, shape), part in zip(shapes, parts, strict=True)}


class Trainer:
    """Trains one model on one node's rows; calls run one at a time, further ones wait.

    `parameter_scope` decides which parameters are trained and which of them are shared, `local_tensors` which
    other tensors the node keeps. The trainer does not use torch's generator; layers such as dropout do.
    """

    def __init__(
        self,
        model: nn.Module,
        section: TrainSection,
        dataset: Dataset,
        seed: int | tuple[int, ...],
        steps: MakeSteps,
        proximal: ProximalTerm | None = None,
        body: str | None = None,
        clock: Clock = CLOCK,
    ) -> None:
        """`steps`: what makes the gradient steps: PlainSteps, or private ones.

        `proximal`: a proximal term, in place of the one that the section asks for; None: that one. `body`:
        the part of the model, not trained, whose outputs replace the rows; None: no part. `clock`: measures
        `seconds` of the section. The constructor freezes all other parameters and moves the model to the
        section's device. Raises ConfigError.
        """
        device = find_device(section.device)
        local = choose_trained(model, section.parameters, section.local)
        self._model, self._dataset = moved(model, dataset, device)
        self._norms = BatchNorms(model)
        self._local = LocalTensors(model, local, self._norms)
        self._left_out = left_out_of_files(model)
        self._section = section
        self._clock = clock
        self._seed = seed if isinstance(seed, tuple) else (seed,)
        self._proximal = proximal or (ProximalTerm(section.proximal) if section.proximal else None)
        self._schedule = make_schedule(section)
        check_optimizer(section)
        self._loss = make_loss(section, dataset.classes, device)
        check_counts(section, torch.cat([dataset.train_y, dataset.test_y]), dataset.unit)
        self._metrics = chosen_metrics(section, dataset.classes)
        self._busy = threading.Lock()
        self._body = None if body is None else FrozenBody(model, body, self._dataset.train_x)
        self._features: Path | None = None
        self._lacks_features = self._body is not None
        two = self._dataset.train_x[:2]
        tried = two if self._body is None else self._body.features(two, None)
        if section.loss != "auto":
            check_loss(section.loss, self._loss, self._outputs(tried), self._dataset.train_y[:2])
        rows = self._dataset if self._body is None else replace(self._dataset, train_x=tried)
        self._tried = rows
        self._steps = steps(model, self._loss, rows, section.batch_size)

    def keep_features(self, folder: Path) -> None:
        """Says where to keep the outputs of the model's frozen body, if it has one, from start to start."""
        self._features = folder

    def _load_features(self) -> None:
        """Replaces the rows by the body's outputs for them, once. Raises UserError."""
        if self._body is None or not self._lacks_features:
            return
        data = self._dataset
        try:
            train = self._body.features(data.train_x, self._features)
            test = self._body.features(data.test_x, self._features) if len(data.test_x) else train[:0]
            if self._features is not None:
                self._body.tidy(self._features)
        except OSError as error:
            raise UserError(f"{self._features}: the features cannot be kept: {reason(error)}") from error
        self._dataset = replace(data, train_x=train, test_x=test)
        self._steps.use(self._dataset)
        self._lacks_features = False

    def vector(self) -> Vector:
        """Returns a copy of the model's current parameters (d,)."""
        return read_vector(self._model, self._section.parameters)

    def digests(self, loaded: Iterable[str]) -> dict[str, str]:
        """Returns SHA-256 digests of the initial tensors that all peers must share, by key of `[model]`.

        `loaded`: the names of tensors that came from a file. Estimated statistics are left out.
        """
        weights = set(loaded) - self._norms.estimated_statistics
        fixed = {*fixed_parameters(self._model), *self._norms.fixed_statistics}
        named = {"weights": weights, "fixed": fixed}
        return {key: digest_of(self._model, names) for key, names in named.items() if names}

    def train(
        self, working: Vector, round_number: int, stop: threading.Event, own: int | None = None
    ) -> Trained:
        """Trains `working` (d,) for the section's epochs, or its seconds, with a new optimiser.

        (seed, `own` or else `round_number`) determines the order of the rows. Raises Interrupted soon after
        `stop` is set, Diverged if the result is not finite; the node's own tensors then keep their previous
        values.
        """
        with self._busy:
            self._load_features()
            begun, before = self._clock.monotonic(), self._local.snapshot()
            write_vector(self._model, working, self._section.parameters)
            try:
                with self._within_memory():
                    loss = self._run_round(round_number, round_number if own is None else own, stop)
            except NotFinite:
                loss = math.nan
            except BaseException:
                self._local.restore(before)
                raise
            vector = read_vector(self._model, self._section.parameters)
            diverged = math.isnan(loss) or not np.isfinite(vector).all()
            if diverged:
                self._local.restore(before)
        if diverged:
            raise Diverged(
                f"training diverged in round {round_number}, the loss is {loss:g}",
                f"lower train.learning_rate = {self._section.learning_rate:g} or set train.grad_clip",
                self._clock.monotonic() - begun,
            )
        return Trained(vector, loss, self._clock.monotonic() - begun, self._steps.pop_not_finite())

    def evaluate(self, vector: Vector) -> Evaluation:
        """Evaluates `vector` (d,) on the dataset's test rows, if they are enough."""
        if not self._dataset.validates:
            return no_evaluation(self._metrics)
        with self._busy, self._within_memory():
            self._load_features()
            self._put(vector)
            targets = self._dataset.test_y
            outputs = self._outputs(self._dataset.test_x)
        data = self._dataset
        how = (self._section, self._loss, self._metrics)
        return evaluated(*how, outputs, targets, data.class_names, data.unit, data.train_y)

    def outputs(self, vector: Vector) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the answers (n, ...) of `vector` (d,) for the test rows, and their targets (n,)."""
        return self._answers(vector, _EVALUATED_ROWS)

    def outputs_by_row(self, vector: Vector) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the same, computed row by row, so that no row's output depends on another row."""
        return self._answers(vector, 1)

    def _answers(self, vector: Vector, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns answers and targets, computed for at most `rows` rows at once."""
        with self._busy, self._within_memory():
            self._load_features()
            self._put(vector)
            found = answers(self._section, self._outputs(self._dataset.test_x, rows))
            return found.cpu(), self._dataset.test_y.cpu()

    def own_loss(self, vector: Vector) -> float:
        """Returns the mean loss of `vector` (d,) on the training rows, which all belong to this node."""
        with self._busy, self._within_memory():
            self._load_features()
            self._put(vector)
            return float(self._loss(self._outputs(self._dataset.train_x), self._dataset.train_y))

    def module(self, vector: Vector) -> nn.Module:
        """Returns a copy of the model with `vector` (d,), for inference; other tensors are the node's own."""
        with self._busy:
            self._load_features()
            self._put(vector)
            whole = copy.deepcopy(self._model)
            if self._body is not None:
                self._body.restore(whole)
            return whole.cpu().eval().requires_grad_(False)

    def curves(self, vector: Vector, task: Task) -> Curves | None:
        """Returns the curves of an additive model with `vector` (d,); None for another, or an empty one."""
        return curves(self.module(vector), task) if isinstance(self._model, Additive) else None

    def made(self, vector: Vector) -> str:
        """Returns nothing: the figures say it."""
        return ""

    def tensors(self, vector: Vector) -> dict[str, Array]:
        """Returns the tensors to write for `vector` (d,), by name; the shared ones are views of it.

        These are all of the model's, but for large ones that are not trained (`left_out_of_files`).
        """
        with self._busy:
            self._load_features()
            self._put(vector)
            named = shapes(self._model, self._section.parameters)
            return whole_model(self._model, split_vector(self._parameters(vector), named), self._left_out)

    @property
    def fixed_bytes(self) -> int:
        """How large the parameters are that are not trained."""
        return fixed_bytes(self._model)

    @property
    def left_out(self) -> str | None:
        """The digest of the tensors that `tensors` leaves out; None if it has all."""
        return digest_of(self._model, self._left_out) if self._left_out else None

    @property
    def device(self) -> str:
        """The device of the training, such as "cpu" or "cuda:0"."""
        return str(next(self._model.parameters()).device)

    @property
    def slow(self) -> str:
        """Why private gradients take longer than they could; "" if they do not."""
        return self._steps.slow

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of the tensors that may differ between peers."""
        return self._local.names

    def resume(self, stored: Mapping[str, Array]) -> None:
        """Restores the own tensors of an earlier start; tensors not in `stored` keep their initial values."""
        with self._busy:
            self._local.resume(stored)

    def _within_memory(self) -> AbstractContextManager[None]:
        return within_memory(self.device, self._section.batch_size)

    def _put(self, vector: Vector) -> None:
        """Writes `vector` (d,) into the model and estimates its batch statistics."""
        write_vector(self._model, self._parameters(vector), self._section.parameters)
        self._norms.estimate(self._dataset.train_x)

    def _parameters(self, vector: Vector) -> Vector:
        """Returns what of `vector` are parameters of a model: all of it."""
        return vector

    def _run_round(self, round_number: int, own: int, stop: threading.Event) -> float:
        """Trains the model in place; returns the mean loss of the last epoch, or of what there was of one."""
        rng = np.random.default_rng([*self._seed, own])
        self._norms.begin_training()
        self._model.zero_grad()
        parameters = [value for value in self._model.parameters() if value.requires_grad]
        rate = self._section.learning_rate * self._schedule(round_number)
        optimizer = make_optimizer(parameters, self._section, rate)
        shared = [value for _, value in matching(self._model, self._section.parameters)]
        held = None if self._proximal is None else Held(self._proximal, shared)
        seconds = self._section.seconds
        ends_at = math.inf if seconds is None else self._clock.monotonic() + seconds
        loss = 0.0
        for epoch in range(self._section.epochs) if seconds is None else itertools.count():
            mean, is_whole = self._run_epoch(optimizer, parameters, held, rng, stop, ends_at)
            loss = mean if is_whole or epoch == 0 else loss
            if self._clock.monotonic() >= ends_at:
                break
        return loss

    def _run_epoch(
        self,
        optimizer: Stepping,
        parameters: Sequence[nn.Parameter],
        held: Held | None,
        rng: np.random.Generator,
        stop: threading.Event,
        ends_at: float,
    ) -> tuple[float, bool]:
        """Makes one pass over the rows, which ends after a batch at `ends_at`.

        Returns the mean loss of the rows that it came to, and whether these are all.
        """
        total, seen = 0.0, 0
        for rows in self._steps.batches(rng):
            if stop.is_set():
                raise Interrupted
            if seen and self._clock.monotonic() >= ends_at:
                return total / seen, False
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
        return total / max(1, seen), True

    def _outputs(self, x: torch.Tensor, rows: int = _EVALUATED_ROWS) -> torch.Tensor:
        """Returns the model's outputs for x (n, ...), computed for at most `rows` of them at once."""
        self._model.eval()
        with torch.inference_mode():
            if not len(x):
                return torch.as_tensor(self._model(self._dataset.train_x[:1])[:0])
            return torch.cat([self._model(batch) for batch in parts(x, rows)])


def make_trainer(
    task: Task,
    model: nn.Module,
    dataset: Dataset,
    seed: int,
    gradient: GradientRule | None,
    system: System = SYSTEM,
) -> Trainer:
    """Returns the trainer of a task's model, with random words and the clock of `system`; or ConfigError."""
    return Trainer(
        model=model,
        section=task.train,
        dataset=dataset,
        seed=seed,
        steps=steps_by(gradient, SystemWords(system.entropy)),
        body=task.model.body,
        clock=system.clock,
    )


def moved(model: nn.Module, dataset: Dataset, device: torch.device) -> tuple[nn.Module, Dataset]:
    """Moves both to `device`; raises UserError if it lacks the memory or a type (MPS has no float64)."""
    if device.type == "cpu":
        return model, dataset
    try:
        return model.to(device), replace(
            dataset,
            train_x=dataset.train_x.to(device),
            train_y=dataset.train_y.to(device),
            test_x=dataset.test_x.to(device),
            test_y=dataset.test_y.to(device),
        )
    except (RuntimeError, TypeError) as error:
        raise UserError(
            f"train.device = {str(device)!r} does not take model and rows: {reason(error)}; set 'cpu'"
        ) from error
