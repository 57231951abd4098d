"""Sources of random words for noise: the system's generator for real runs, a seed for replays."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

_PIECE_BYTES = 1 << 18
_ZEROS = bytes(_PIECE_BYTES)
_KEY_BYTES = 32
# 2^26 blocks of 16 bytes: the advantage in telling them from random words is 2^(2 * 26 - 129) = 2^-77.
_BYTES_A_KEY = 1 << 30


class Words(Protocol):
    """A source of independent, uniform 32-bit words. It is not thread-safe."""

    def fill(self, out: NDArray[np.uint32]) -> None:
        """Overwrites `out`, (n,) uint32 and C-contiguous, with the next n words."""


class SystemWords:
    """AES-256-CTR under a fresh key from the system's generator, `os.urandom`.

    After 1 GiB a new key replaces the old one, and nobody can compute earlier words again. A forked process
    draws its own key, so that two processes never get the same words.
    """

    def __init__(self, entropy: Callable[[int], bytes] = os.urandom) -> None:
        """`entropy` returns random bytes that nobody can guess."""
        self._entropy = entropy
        self._renew()

    def _renew(self) -> None:
        self._process = os.getpid()
        self._left_bytes = _BYTES_A_KEY
        self._stream = Cipher(AES(self._entropy(_KEY_BYTES)), CTR(bytes(16))).encryptor()

    def fill(self, out: NDArray[np.uint32]) -> None:
        """See Words.fill. TypeError unless `out` is uint32, ValueError unless it is (n,) and contiguous."""
        target = _bytes_of(out)
        if os.getpid() != self._process:
            self._renew()
        for start in range(0, len(target), _PIECE_BYTES):
            piece = target[start : start + _PIECE_BYTES]
            if self._left_bytes < len(piece):
                self._renew()
            self._left_bytes -= len(piece)
            self._stream.update_into(memoryview(_ZEROS)[: len(piece)], piece)


class SeededWords:
    """Words from a seed, for simulations and tests ONLY: anybody who knows the seed can remove the noise."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def fill(self, out: NDArray[np.uint32]) -> None:
        """See Words.fill. TypeError unless `out` is uint32, ValueError unless it is (n,) and contiguous."""
        _bytes_of(out)[:] = self._rng.bytes(out.nbytes)


def uniform64(count: int, words: Words) -> NDArray[np.uint64]:
    """Returns (count,) independent uniform 64-bit words."""
    drawn = np.empty(count, dtype=np.uint64)
    words.fill(drawn.view(np.uint32))
    return drawn


def _bytes_of(out: NDArray[np.uint32]) -> memoryview:
    if out.dtype != np.uint32:
        raise TypeError(f"out holds {out.dtype}; allowed: uint32")
    if out.ndim != 1 or not out.flags.c_contiguous:
        raise ValueError(f"out has shape {out.shape} and strides {out.strides}; allowed: (n,), contiguous")
    return out.data.cast("B")
