"""Real numbers as whole numbers modulo 2^72: what exact jobs add up, without noise.

A number x is k = rint(x / unit), in three words of 24 bits, the lowest first. A secure sum adds each word
modulo 2^32, so up to MEMBERS members' words do not wrap around, and the carries are taken after the addition.
Before they are, the words of a sum tell at most log2 of the number of members more bits than the total.

The total is exact in units, whatever the order of the members. As a float64 it is rounded once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from node.jobs.exact_arithmetic import Doubles
from node.jobs.job import Words
from node.storage.vector_files import Floats

LIMBS = 3
"""The words of a number."""
MEMBERS = 64
"""The most members of a sum of numbers."""
_BITS = 24
_RADIX = 1 << _BITS
_MOST = float(np.nextafter(2.0 ** (LIMBS * _BITS - 1) / MEMBERS, 0))  # units: all members stay below 2^71

Limbs = NDArray[np.int64]


def to_words(values: Doubles, unit: float) -> Words:
    """Returns (3n,) words of (n,) finite numbers; `unit` is a power of two.

    A number beyond 2^65 units is cut to that, so that the total of all members has its sign and is huge.
    """
    whole = np.rint(np.clip(values.ravel(), -_MOST * unit, _MOST * unit) / unit)
    limbs = np.empty((len(whole), LIMBS), np.uint32)
    for place in range(LIMBS):
        above = np.floor(whole / _RADIX)
        limbs[:, place] = whole - above * _RADIX
        whole = above
    return limbs.ravel()


def limbs_of(words: Words) -> Limbs:
    """Returns the sum's words (3n,) as limbs (n, 3)."""
    return words.reshape(-1, LIMBS).astype(np.int64)


def to_numbers(limbs: Limbs, unit: float) -> Doubles:
    """Returns (...,) numbers of limbs (..., 3), each below 2^62, after the carries: the total modulo 2^72."""
    low = limbs[..., 0]
    middle = limbs[..., 1] + (low >> _BITS)
    high = limbs[..., 2] + (middle >> _BITS)
    high = ((high + _RADIX // 2) & (_RADIX - 1)) - _RADIX // 2
    upper = (high * _RADIX + (middle & (_RADIX - 1))).astype(np.float64)
    return (upper * _RADIX + (low & (_RADIX - 1)).astype(np.float64)) * unit


def sums_from_here(limbs: Limbs) -> Limbs:
    """Returns for limbs (..., k, 3) the exact sums of each of the k places and all after it."""
    return np.flip(np.cumsum(np.flip(limbs, axis=-2), axis=-2, dtype=np.int64), axis=-2)


def to_state(values: NDArray[np.generic]) -> Floats:
    """Returns the bytes of float64 or uint32 `values` as whole numbers below 2^16: a part of a base."""
    return np.ascontiguousarray(values).ravel().view(np.uint16).astype(np.float32)


def doubles_of(state: Floats) -> Doubles:
    """Returns the (n,) float64 of a part (4n,) of a base."""
    return state.astype(np.uint16).view(np.float64)


def counts_of(state: Floats) -> NDArray[np.int64]:
    """Returns the (n,) uint32 of a part (2n,) of a base."""
    return state.astype(np.uint16).view(np.uint32).astype(np.int64)
