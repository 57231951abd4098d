"""Partial sums look uniform, rounding is unbiased: fixed seeds, stated error rates, planted faults.

Each test is a fixed draw, so its result never varies. A fresh draw would exceed a threshold with
probability 1e-6; each planted fault must exceed it.
"""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.fixed_point import FixedPoint
from protocol.crypto import prg
from tests.parts import machines, members, outbox, shared

ERROR_RATE = 1e-6
DIMENSION = 1 << 14
RING = ShareSettings("ring", 4.0, 100.0)


def partial_sums(values: float) -> list[NDArray[np.uint32]]:
    """Returns each member's partial sum of three equal, constant vectors, as the network carries it."""
    vectors = [np.full(DIMENSION, values, dtype="<f4")] * 3
    results = shared(machines(3, DIMENSION, RING), vectors)
    keys = [key.public for key in members(3)]
    sums = [outbox(actions, keys[place - 1])[0] for place, actions in enumerate(results)]
    return [np.frombuffer(message.payload, dtype="<u4") for message in sums]


def uniformity(words: NDArray[np.uint32]) -> float:
    """Returns the p-value of Pearson's chi-square over all bytes against the uniform distribution."""
    counts = np.bincount(np.ascontiguousarray(words).view(np.uint8), minlength=256)
    expected = counts.sum() / 256
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), 255))


@pytest.mark.parametrize("values", [0.0, 0.25])
def test_partial_sums_of_a_constant_are_uniform(values):
    for words in partial_sums(values):
        assert uniformity(words) > ERROR_RATE


def test_partial_sums_of_two_vectors_are_distributed_alike():
    first, second = partial_sums(0.0)[0], partial_sums(1.0)[0]
    counts = [
        np.bincount(words.view(np.uint8), minlength=256).astype(np.float64) for words in (first, second)
    ]
    statistic = ((counts[0] - counts[1]) ** 2 / (counts[0] + counts[1])).sum()

    assert chi2.sf(statistic, 255) > ERROR_RATE


def test_without_masks_uniformity_fails(monkeypatch):
    """The planted fault: every word of every mask is zero."""
    monkeypatch.setattr(prg, "words", lambda _seed, _start, count: np.zeros(count, dtype="<u4"))

    assert uniformity(partial_sums(0.25)[0]) < ERROR_RATE


def test_a_mask_that_repeats_after_a_piece_fails(monkeypatch):
    """The planted fault of the reference system: each part of the vector starts the same stream."""
    whole = prg.words

    def repeating(seed: bytes, start: int, count: int) -> NDArray[np.uint32]:
        return np.resize(whole(seed, start, 64), count)

    monkeypatch.setattr(prg, "words", repeating)
    assert uniformity(partial_sums(0.25)[0]) < ERROR_RATE


def bias(point: FixedPoint, x: float, encode) -> float:
    """Returns the two-sided p-value of mean(q) = x s under the variance bound 1/4 of one rounding."""
    count = 1 << 18
    words = encode(np.full(count, x, dtype="<f4"))
    error = words.view("<i4").astype(np.float64) - np.float64(np.float32(x)) * point.scale
    return float(2 * norm.sf(abs(error.mean()) / (0.5 / np.sqrt(count))))


@pytest.mark.parametrize("x", [0.1, -0.3, 1e-9, 3.99, -1e-10])
def test_rounding_is_unbiased(x):
    point = FixedPoint(4.0, 10)

    assert bias(point, x, lambda vector: point.encode(vector, b"\x05" * 32)[0]) > ERROR_RATE


def test_rounding_down_is_found_to_be_biased():
    """The planted fault: no randomness."""
    point = FixedPoint(4.0, 10)
    down = lambda vector: np.floor(vector * point.scale).astype(np.int64).astype(np.uint32)  # noqa: E731

    assert bias(point, 0.1, down) < ERROR_RATE
