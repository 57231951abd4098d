"""Scikit-learn's estimators that learn by `partial_fit`: linear ones by their coefficients, and networks."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from node.learners.learner import LearnerRows, Vector
from node.learners.pieces import cut, joined, write_arrays
from node.system.errors import ConfigError

_LINEAR = ("coef_", "intercept_")
_NETWORK = ("coefs_", "intercepts_")
_FITTING = threading.Lock()
"""While it fits, scikit-learn changes the warning filters of the whole program: its threads take turns."""


class SklearnLearner:
    """Learns by an estimator's `partial_fit`, and shares its coefficients, which begin at those of one step.

    Linear estimators (SGDClassifier, SGDRegressor, Perceptron, ...) begin at zero. Networks (MLPClassifier,
    MLPRegressor) begin as they are drawn: give them the same `random_state` at all members.
    """

    def __init__(self, estimator: Any, rows: LearnerRows, epochs: int = 1) -> None:
        """`estimator`: not fitted yet. `epochs`: passes over the rows in a round. Raises ConfigError."""
        self.name = (
            f"{type(estimator).__name__} with {rows.x[0].size} features, {rows.classes or 'no'} classes"
        )
        self.rows = len(rows.x)
        if not hasattr(estimator, "partial_fit"):
            raise ConfigError(
                f"{type(estimator).__name__} has no partial_fit, by which it would learn on from the others' "
                "coefficients; allowed: SGDClassifier, SGDRegressor, Perceptron, MLPClassifier and their like"
            )
        self._estimator, self._rows, self._epochs = copy.deepcopy(estimator), rows, epochs
        self._fit(self._estimator, rows.x[:1], rows.y[:1])
        self._names: tuple[str, ...] = next(
            (names for names in (_LINEAR, _NETWORK) if hasattr(self._estimator, names[0])), ()
        )
        if not self._names:
            raise ConfigError(
                f"{type(estimator).__name__} has neither {_LINEAR[0]} nor {_NETWORK[0]}; allowed: one"
            )
        self._first = self._drawn(estimator)

    def vector(self) -> Vector:
        """Returns the first coefficients (d,)."""
        return self._first

    def train(self, vector: Vector, round: int) -> Vector:
        """Returns the coefficients (d,) after the epochs of a round."""
        model = self.fitted(vector)
        for _ in range(self._epochs):
            self._fit(model, self._rows.x, self._rows.y)
        return joined(self._arrays(model))

    def evaluate(self, vector: Vector) -> Mapping[str, float]:
        """Returns the accuracy, or R2 for numbers, on the rows held back."""
        if not len(self._rows.test_x):
            return {}
        score = float(self.fitted(vector).score(self._flat(self._rows.test_x), self._rows.test_y))
        return {"r2" if self._rows.classes is None else "accuracy": score}

    def counts(self, vector: Vector) -> NDArray[np.int64]:
        """Returns (2,) how many rows are held back and how many of them are right. Raises ConfigError."""
        rows = self._rows
        if rows.classes is None:
            raise ConfigError("R2 follows from no whole numbers; set aggregation.swarm_metric=none")
        right = (
            self.fitted(vector).predict(self._flat(rows.test_x)) == rows.test_y if len(rows.test_x) else ()
        )
        return np.array([len(rows.test_x), np.sum(right)], np.int64)

    def metrics(self, counts: NDArray[np.generic]) -> Mapping[str, float]:
        """Returns the accuracy of what `counts` gives, or of a sum of it."""
        rows, right = (float(number) for number in counts)
        return {"accuracy": right / rows}

    def save(self, vector: Vector, folder: Path) -> None:
        """Writes the coefficients by their names in the estimator, as an npz."""
        model = self.fitted(vector)
        named = {name: getattr(model, name) for name in self._names}
        arrays = {
            f"{name}_{at}" if isinstance(kept, list) else name: part
            for name, kept in named.items()
            for at, part in enumerate(kept if isinstance(kept, list) else [kept])
        }
        write_arrays(folder / "coefficients.npz", arrays)

    def fitted(self, vector: Vector) -> Any:
        """Returns a copy of the estimator with the coefficients `vector` (d,), which can predict."""
        model = copy.deepcopy(self._estimator)
        parts = iter(cut(vector, self._arrays(model)))
        for name in self._names:
            kept = getattr(model, name)
            setattr(model, name, [next(parts) for _ in kept] if isinstance(kept, list) else next(parts))
        return model

    def _arrays(self, model: Any) -> list[NDArray[Any]]:
        return [
            part
            for name in self._names
            for kept in [getattr(model, name)]
            for part in (kept if isinstance(kept, list) else [kept])
        ]

    def _fit(self, model: Any, x: NDArray[np.float32], y: NDArray[np.generic]) -> None:
        classes = self._rows.classes
        more = {} if classes is None else {"classes": np.arange(classes)}
        with _FITTING:
            model.partial_fit(self._flat(x), y, **more)

    @staticmethod
    def _flat(x: NDArray[np.float32]) -> NDArray[np.float32]:
        return x.reshape(len(x), -1)

    def _drawn(self, estimator: Any) -> Vector:
        """Returns the first coefficients: zero, or for a network those of a step on rows of nothing."""
        if self._names == _LINEAR:
            return np.zeros_like(joined(self._arrays(self._estimator)))
        model = copy.deepcopy(estimator)
        nothing = np.zeros_like(self._rows.x[:1])
        self._fit(model, nothing, np.zeros(1, self._rows.y.dtype))
        return joined(self._arrays(model))
