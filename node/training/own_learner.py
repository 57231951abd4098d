"""A learner of another framework as a node needs it: what it returns is checked, its errors are one line."""

from __future__ import annotations

import hashlib
import logging
import math
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from node.learners.learner import Learner
from node.storage.whole_files import whole_folder
from node.system.clock import CLOCK, Clock
from node.system.errors import ConfigError, UserError, shown
from node.task.import_path import told
from node.training.figures.headline import Headline
from node.training.figures.tallies import LearnersCounts, Sums
from node.training.local_tensors import Array
from node.training.trainer import (
    Diverged,
    Evaluation,
    Interrupted,
    NoResult,
    Shapes,
    Trained,
    Vector,
    no_evaluation,
)

VECTOR = "vector"
"""The name of the one tensor of a learner's model file."""
METHODS = ("vector", "train", "evaluate", "save")
COUNTING = ("counts", "metrics")
"""The methods that a learner needs for a metric of all members' rows."""
_MOST_COUNTED = 1 << 48
_METRIC = re.compile(r"[^\W_][\w .%@/()+-]{0,39}")
_MOST_METRICS = 32
_LONGEST_NAME = 100
T = TypeVar("T")
log = logging.getLogger("murmuration.learner")


class OwnLearner:
    """Calls a learner, one method at a time. Its errors name it and what it did."""

    def __init__(self, learner: Learner, initial: Vector | None = None, clock: Clock = CLOCK) -> None:
        """`initial`: the vector to begin with, in place of the learner's own. Raises ConfigError."""
        self._learner, self._clock = learner, clock
        self._busy = threading.Lock()
        self._counted: int | None = None
        self._covered = False
        lacking = [name for name in METHODS if not callable(getattr(learner, name, None))]
        if lacking:
            raise ConfigError(
                f"{type(learner).__name__} is no learner: it has no {', '.join(lacking)}; a learner has the "
                f"methods {', '.join(METHODS)} (docs/learners.md)"
            )
        self.name = str(getattr(learner, "name", type(learner).__name__))
        if not self.name.isprintable() or not 0 < len(self.name) <= _LONGEST_NAME:
            raise ConfigError(
                f"a learner's name = {shown(self.name)} is refused; allowed: a line of 1 to {_LONGEST_NAME} "
                "characters"
            )
        try:
            own = self._numbers(self._called("vector"), None, "vector")
            self._initial = own if initial is None else self._numbers(initial, own.shape, "model.weights")
        except UserError as error:
            raise ConfigError(str(error)) from error
        if not np.isfinite(self._initial).all():
            raise ConfigError(f"{self}: its first vector has values that are not finite")

    def __str__(self) -> str:
        return f"learner {shown(self.name)}"

    @property
    def shapes(self) -> Shapes:
        """The name and shape of what is shared."""
        return [(VECTOR, self._initial.shape)]

    @property
    def digests(self) -> dict[str, str]:
        """What peers agree on, by key of `[model]`: the learner's name, and a digest of its first vector.

        Also how many numbers it counts, once it has made a tally.
        """
        words = self._initial.astype("<f4").tobytes()
        counts = {} if self._counted is None else {"counts": str(self._counted)}
        return {"learner": self.name, "initial": hashlib.sha256(words).hexdigest(), **counts}

    @property
    def rows(self) -> int:
        """How many rows it learns from. Raises ConfigError if it does not say so."""
        rows = self._part("rows")
        if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
            raise ConfigError(
                f"aggregation.weighting = 'samples' is refused: {self} has rows = {shown(rows)}; allowed: a "
                "whole number from 1, or aggregation.weighting=uniform"
            )
        return int(rows)

    @property
    def has_counts(self) -> bool:
        """Whether it counts what metrics of all members' rows follow from."""
        return all(callable(getattr(self._learner, name, None)) for name in COUNTING)

    def tally(self) -> LearnersCounts:
        """Returns what it counts: as many numbers as of its first vector. Raises ConfigError."""
        try:
            return LearnersCounts(len(self._counts(self._initial)), self._metrics)
        except UserError as error:
            raise ConfigError(str(error)) from error

    def outputs(self, vector: Vector) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns what it counts for `vector` (d,) as one output (1, k), and no target (0,)."""
        return torch.from_numpy(self._counts(vector)[None]), torch.zeros(0)

    def _counts(self, vector: Vector) -> Sums:
        with self._busy:
            made = np.asarray(self._called("counts", vector.copy()))
        whole = made.ndim == 1 and made.size > 0 and made.dtype.kind in "iuf"
        counts: Sums = made.astype(np.float64) if whole else np.full(1, -1.0)
        if not (np.all((counts >= 0) & (counts < _MOST_COUNTED)) and np.all(counts == np.rint(counts))):
            raise UserError(
                f"{self}: counts() returned {shown(made.tolist())}; allowed: whole numbers (k,) from 0 to "
                f"{_MOST_COUNTED - 1}"
            )
        if self._counted not in (None, len(counts)):
            raise UserError(f"{self}: counts() returned {len(counts)} numbers, before {self._counted}")
        self._counted = len(counts)
        return counts

    def _metrics(self, totals: Sums) -> dict[str, float | None]:
        return self._by_name("metrics", self._called("metrics", totals.copy()))

    @property
    def has_loss(self) -> bool:
        """Whether it says its loss on the rows that it learns from."""
        return callable(getattr(self._learner, "loss", None))

    def cover(self) -> None:
        """Lets its errors end no node from now on.

        For noise that covers whole updates: they may depend on rows, and the others would see the end.
        """
        self._covered = True

    def vector(self) -> Vector:
        """Returns the common initial vector (d,)."""
        return self._initial.copy()

    def train(
        self, working: Vector, round_number: int, stop: threading.Event, own: int | None = None
    ) -> Trained:
        """Returns the next working vector (d,); Interrupted if `stop` was set by the end of the training.

        Raises NoResult.
        """
        begun = self._clock.monotonic()
        try:
            with self._busy:
                made = self._called("train", working.copy(), round_number)
            vector = self._numbers(made, self._initial.shape, "train")
        except UserError as error:
            seconds = self._clock.monotonic() - begun
            raise NoResult(str(error), f"failed ({error})", "correct the learner", seconds) from error
        seconds = self._clock.monotonic() - begun
        if stop.is_set():
            raise Interrupted
        if not np.isfinite(vector).all():
            why = f"{self}: training gave values that are not finite in round {round_number}"
            raise Diverged(why, "let it take smaller steps", seconds)
        return Trained(vector, None, seconds)

    def evaluate(self, vector: Vector) -> Evaluation:
        """Returns the learner's metrics of `vector` (d,); one that is not finite counts as not defined."""
        return self._unless_covered(no_evaluation(("accuracy",)), lambda: self._evaluated(vector))

    def _evaluated(self, vector: Vector) -> Evaluation:
        with self._busy:
            values = self._by_name("evaluate", self._called("evaluate", vector.copy()))
        if not values:
            return no_evaluation(("accuracy",))
        metric, value = next(iter(values.items()))
        loss = values.get("loss")
        metrics = {name: value for name, value in values.items() if name != "loss"}
        return Evaluation(values.get("accuracy"), loss, metrics, Headline(metric, value, None))

    def own_loss(self, vector: Vector) -> float:
        """Returns the mean loss of `vector` (d,) on the rows that it learns from, if it `has_loss`."""
        loss = self._unless_covered(None, lambda: self._loss(vector))
        return math.inf if loss is None else loss

    def _loss(self, vector: Vector) -> float | None:
        with self._busy:
            return self._value("loss", self._called("loss", vector.copy()))

    def tensors(self, vector: Vector) -> dict[str, Array]:
        """Returns the vector (d,), by its name."""
        return {VECTOR: vector}

    def made(self, vector: Vector) -> str:
        """Returns nothing: the learner's figures say it."""
        return ""

    def save(self, vector: Vector, folder: Path) -> None:
        """Replaces `folder` by what the learner writes for `vector` (d,)."""
        with self._busy, whole_folder(folder) as empty:
            self._called("save", vector.copy(), empty)

    def _unless_covered(self, otherwise: T, call: Callable[[], T]) -> T:
        """Returns what `call` does; `otherwise` in place of an error that nobody else may see."""
        try:
            return call()
        except UserError as error:
            if not self._covered:
                raise
            log.warning("%s; the others are not told", error)
            return otherwise

    def _called(self, name: str, *arguments: object) -> Any:
        """Returns what a method of the learner returns; an error of it becomes a line."""
        try:
            return getattr(self._learner, name)(*arguments)
        except UserError:
            raise
        except Exception as error:  # a user's learner may raise anything
            raise UserError(f"{self}: {name}() failed: {told(error)}") from error

    def _part(self, name: str) -> Any:
        try:
            return getattr(self._learner, name, None)
        except UserError:
            raise
        except Exception as error:  # a user's learner may raise anything
            raise ConfigError(f"{self}: {name} failed: {told(error)}") from error

    def _numbers(self, made: object, shape: tuple[int, ...] | None, method: str) -> Vector:
        """Returns `made` if it is a vector of float32, of this shape if one is given; raises UserError."""
        got = type(made).__name__
        if isinstance(made, np.ndarray):
            fits = made.ndim == 1 and made.size > 0 and shape in (None, made.shape)
            if fits and made.dtype == np.float32:
                return made.copy()
            got = f"{made.dtype} {made.shape}"
        raise UserError(f"{self}: {method} gives {got}; allowed: an array of float32 {shape or '(d,)'}")

    def _by_name(self, method: str, found: object) -> dict[str, float | None]:
        """Returns the metrics that a method returned; one that is not finite is None."""
        if not isinstance(found, Mapping) or len(found) > _MOST_METRICS:
            raise UserError(
                f"{self}: {method}() returned {shown(found)}; allowed: up to {_MOST_METRICS} metrics by name"
            )
        for name in found:
            if not isinstance(name, str) or not _METRIC.fullmatch(name):
                raise UserError(
                    f"{self}: {method}() returned a metric {shown(name)}; allowed: names of at most 40 "
                    "letters, digits and signs"
                )
        return {name: self._value(name, value) for name, value in found.items()}

    def _value(self, name: str, value: object) -> float | None:
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise UserError(f"{self}: {name} = {shown(value)} is no number") from None
        return number if math.isfinite(number) else None
