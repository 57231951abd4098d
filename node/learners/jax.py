"""JAX: a pytree of parameters, and functions of your own that train and measure it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from node.learners.extras import extra
from node.learners.learner import Vector
from node.learners.pieces import cut, joined, write_arrays


class JaxLearner:
    """Learns the leaves of a pytree: Flax's parameters, a list of pairs, whatever JAX flattens."""

    def __init__(
        self,
        params: Any,
        train: Callable[[Any, int], Any],
        evaluate: Callable[[Any], Mapping[str, float]],
        name: str = "a pytree of JAX",
    ) -> None:
        """`params`: to begin with, drawn from the same key at all members.

        `train` returns the parameters after a round of training, from 1; `evaluate` their metrics, the
        headline first. `name`: what all members must have alike. Raises ConfigError if jax is not installed.
        """
        self.name, self._train, self._evaluate = name, train, evaluate
        leaves, self._tree = _jax().tree.flatten(params)
        self._like = [np.asarray(leaf) for leaf in leaves]

    def vector(self) -> Vector:
        """Returns the leaves (d,), in JAX's order."""
        return joined(self._like)

    def train(self, vector: Vector, round: int) -> Vector:
        """Returns the leaves (d,) after a round."""
        return joined(
            [np.asarray(leaf) for leaf in _jax().tree.leaves(self._train(self.params(vector), round))]
        )

    def evaluate(self, vector: Vector) -> Mapping[str, float]:
        """Returns the metrics."""
        return {name: float(value) for name, value in self._evaluate(self.params(vector)).items()}

    def save(self, vector: Vector, folder: Path) -> None:
        """Writes the leaves, by their paths in the tree, as an npz."""
        paths = _jax().tree_util.tree_leaves_with_path(self.params(vector))
        arrays = {_jax().tree_util.keystr(path): np.asarray(leaf) for path, leaf in paths}
        write_arrays(folder / "params.npz", arrays)

    def params(self, vector: Vector) -> Any:
        """Returns the pytree with the leaves `vector` (d,)."""
        jnp = _jax().numpy
        return _jax().tree.unflatten(self._tree, [jnp.asarray(leaf) for leaf in cut(vector, self._like)])


def _jax() -> Any:
    return extra("jax", "jax")
