"""Attacks and aggregators as a user may write them, for tests to name by import path."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Forger:
    """Sends the negated update."""

    factor: float = 1.0

    def weights(self, weights: np.ndarray, start: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (start - self.factor * (weights - start)).astype(np.float32)


class Poisoner:
    """Makes every label the first."""

    def rows(self, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        return x, np.zeros_like(y)


class Both(Forger, Poisoner):
    """Does both."""


class Misshapen:
    """Returns what is no update."""

    def weights(self, weights: np.ndarray, start: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return weights[:1]

    def rows(self, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        return x, y.astype(np.float64)


def first(updates: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """The first update."""
    return updates[0] * scale


def wide(updates: np.ndarray) -> np.ndarray:
    """No update."""
    return updates


NO_FUNCTION = 3
