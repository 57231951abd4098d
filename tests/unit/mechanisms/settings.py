"""A setting to start from, words that repeat, and values that are refused."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from mechanisms.mechanism import Setting
from mechanisms.noise.randomness import SeededWords
from mechanisms.servers.server import ServerMechanism, Upload


def setting(**values: Any) -> Setting:
    usual = {"epsilon": 8.0, "delta": 1e-5, "clipping_radius": 1.0, "window": 3, "window_source": "raw"}
    work = {"calibration": "exact", "rounds": 20, "sizes": (4, 6), "rows": 300, "batch_size": 16, "epochs": 2}
    return Setting(**{**usual, **work, **values})


def refused(call: Callable[..., object], **values: object) -> None:
    """Each of these values alone is refused in a line that names it."""
    for name, value in values.items():
        with pytest.raises(ValueError, match=rf"^{name} = {re.escape(repr(value))} is not allowed"):
            call(**{name: value})


def words(seed: int | Sequence[int] = 0) -> SeededWords:
    return SeededWords(np.random.default_rng(seed))


class Given:
    """Words that a test chooses: 64-bit values, again and again."""

    def __init__(self, *values: int) -> None:
        self.values = np.array(values, dtype=np.uint64)

    def fill(self, out: np.ndarray) -> None:
        out.view(np.uint64)[:] = np.resize(self.values, len(out) // 2)


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
