"""A setting to start from, and words that repeat."""

from __future__ import annotations

from typing import Any

import numpy as np

from mechanisms.mechanism import Setting
from mechanisms.noise.randomness import SeededWords


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
