"""A setting to start from, and words that repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mechanisms.mechanism import Setting
from mechanisms.noise.randomness import SeededWords
from mechanisms.servers.server import ServerMechanism, Upload


def setting(**values: Any) -> Setting:
    usual: dict[str, Any] = {
        "epsilon": 8.0,
        "delta": 1e-5,
        "clipping_radius": 1.0,
        "window": 3,
        "window_source": "raw",
        "calibration": "exact",
        "rounds": 20,
        "sizes": (4, 6),
        "rows": 300,
        "batch_size": 16,
        "epochs": 2,
    }
    return Setting(**{**usual, **values})


def words(seed: int = 0) -> SeededWords:
    return SeededWords(np.random.default_rng(seed))


def vector(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def uploads_of(vectors: Sequence[np.ndarray], rows: Sequence[int]) -> list[Upload]:
    """Uploads of clients 0, 1, ... with these `rows`."""
    pairs = zip(vectors, rows, strict=True)
    return [Upload(client, own, vector) for client, (vector, own) in enumerate(pairs)]


def combined(
    mechanism: ServerMechanism, model: np.ndarray, vectors: Sequence[np.ndarray], rows: Sequence[int]
) -> np.ndarray:
    """The model after the first round, with these uploads; the state of a mechanism without memory stays."""
    new, state = mechanism.combine(model, mechanism.start(), uploads_of(vectors, rows), words())
    assert state == mechanism.start()
    return new
