"""Digests of models, to compare them, and of names, to separate streams of noise."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray


def digest_of(model: NDArray[np.float32]) -> str:
    """The digest of a final model (d,): equal for models that are equal bit by bit."""
    return hashlib.sha256(model.tobytes()).hexdigest()[:16]


def salt_of(arm: str) -> int:
    """The salt of an arm's streams of noise, so that no two arms have the same noise."""
    return int.from_bytes(hashlib.sha256(arm.encode()).digest()[:4], "big")
