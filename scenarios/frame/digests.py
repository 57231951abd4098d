"""Digests: of models, to tell whether two are the same, and of names, to keep streams of noise apart."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray


def digest_of(model: NDArray[np.float32]) -> str:
    """Of a final model (d,): runs whose models are the same bit by bit have the same."""
    return hashlib.sha256(model.tobytes()).hexdigest()[:16]


def salt_of(arm: str) -> int:
    """Of an arm's streams of noise, so that no two arms have the same noise."""
    return int.from_bytes(hashlib.sha256(arm.encode()).digest()[:4], "big")
