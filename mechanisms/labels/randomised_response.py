"""Randomised response over a few classes, with probabilities that keep the stated epsilon exactly.

A class stays with probability e^eps / (n - 1 + e^eps) and becomes each other one with 1 / (n - 1 + e^eps)
(Warner 1965 for two classes; Kairouz, Oh, Viswanath 2014 for n). The probabilities are
multiples of 2^-64, and each other class gets the same number c of the 2^64 words, rounded up: the ratio
(2^64 - (n - 1) c) / c never exceeds e^eps. So a very large epsilon is honoured with less: 100 is truly 44.4.
At epsilon 0 (or below 1e-14) the ratio is 1 + n^2 2^-63 at most, as 2^64 words can not
always be dealt out evenly.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mechanisms.noise.randomness import Words

Classes = NDArray[np.int64]

_WORDS = 1 << 64
_ROUNDING = 1.0 + 2.0**-48  # more than the error of e^eps and of the division in double precision


def words_for_another(epsilon: float, classes: int) -> int:
    """c: how many of the 2^64 words turn a class into one certain other class."""
    wanted = math.ceil(2.0**64 * _ROUNDING / (classes - 1 + math.exp(epsilon)))
    return min(wanted, _WORDS // classes)


def respond(given: Classes, classes: int, epsilon: float, words: Words) -> Classes:
    """(n,) classes in 0 .. `classes` - 1 to (n,) of the same, each kept or changed on its own.

    Unit of privacy: one entry; neighbours differ in that entry (replace); pure epsilon >= 0. The caller
    has judged the arguments: entries within range, `classes` at least 2.
    """
    share = words_for_another(epsilon, classes)
    drawn = uniform64(len(given), words)
    other = (drawn // np.uint64(share)).astype(np.int64)  # which of the n - 1 others, if it is to change
    other += other >= given
    return np.where(drawn < np.uint64((classes - 1) * share), other, given)


def uniform64(count: int, words: Words) -> NDArray[np.uint64]:
    """(count,) independent uniform words of 64 bits."""
    halves = np.empty(2 * count, dtype=np.uint32)
    words.fill(halves)
    return halves.view(np.uint64)
