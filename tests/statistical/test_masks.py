"""Partial sums and masked vectors look uniform, rounding is unbiased: fixed seeds, planted faults.

Each test is a fixed draw, so its result never varies. A fresh draw would exceed a threshold with
probability 1e-6; each planted fault must exceed it.
"""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import chi2, norm

from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.fixed_point import FixedPoint
from protocol.aggregation.masked.chunks import MaskedVector, masks_of
from protocol.aggregation.masked.layout import ALL_TO_ALL_BYTES, Layout
from protocol.aggregation.masked.mask_keys import pair_seed, private_key, public_key, secret_from, self_seed
from protocol.crypto import prg
from protocol.crypto.prg import Stream
from protocol.vectors.pieces import Words
from protocol.vectors.ring import NARROW
from protocol.vectors.shelf import in_memory
from tests.parts import machines, members, outbox, shared

ERROR_RATE = 1e-6
DIMENSION = 1 << 14
LAYOUT, SID = Layout(20_001, 4), b"s" * 32
SHORT = Layout(20_001, 4, ALL_TO_ALL_BYTES // 2, NARROW)
KEYS = [key.public for key in members(4)]
SECRETS = [secret_from(bytes([0x31 + number]) * 32) for number in range(4)]


def counts(words: Words) -> np.ndarray:
    return np.bincount(np.ascontiguousarray(words).view(np.uint8), minlength=256).astype(np.float64)


def uniformity(words: Words) -> float:
    """Returns the p-value of Pearson's chi-square over all bytes against the uniform distribution."""
    seen = counts(words)
    return float(chi2.sf(((seen - seen.mean()) ** 2 / seen.mean()).sum(), 255))


def alike(first: Words, second: Words) -> float:
    """Returns the p-value of the two-sample chi-square over all bytes."""
    one, two = counts(first), counts(second)
    return float(chi2.sf(((one - two) ** 2 / np.maximum(one + two, 1)).sum(), 255))


def partial_sums(values: float) -> list[Words]:
    """Returns each member's partial sum of three equal, constant vectors, as the network carries it."""
    vectors = [np.full(DIMENSION, values, dtype="<f4")] * 3
    results = shared(machines(3, DIMENSION, ShareSettings("ring", 4.0, 100.0)), vectors)
    keys = [key.public for key in members(3)]
    sums = [outbox(actions, keys[place - 1])[0] for place, actions in enumerate(results)]
    return [np.frombuffer(message.payload, dtype="<u4") for message in sums]


def pair_seeds(member: int) -> list[bytes | None]:
    public = [public_key(secret) for secret in SECRETS]
    private = private_key(SECRETS[member])
    ends = ((private, public[other], SID, KEYS[member], KEYS[other]) for other in range(4))
    return [None if other == member else pair_seed(*end) for other, end in enumerate(ends)]


def masked(
    value: float, member: int = 1, pairs: Sequence[bytes | None] | None = None, layout: Layout = LAYOUT
) -> Words:
    """Returns the masked vector of a constant, as the network carries it."""
    own = self_seed(SECRETS[3 - member], SID, KEYS[member])
    of = masks_of(member, own, pair_seeds(member) if pairs is None else pairs, b"\x09" * 32)
    x = np.full(layout.dimension, value, dtype="<f4")
    point = FixedPoint(4.0, 4, layout.ring)
    made = MaskedVector(x, of, point, layout, members(4)[member], SID, in_memory(0))
    return np.concatenate([made.words(index) for index in range(layout.chunks)])


def between_chunks(words: Words, layout: Layout = LAYOUT) -> Words:
    """The difference of two chunks: a stream that starts anew in each shows that of the masked content."""
    length = layout.length(0)
    return words[:length] - words[length : 2 * length]


def test_partial_sums_of_constants_are_uniform_and_distributed_alike():
    of_zero = partial_sums(0.0)
    for words in (*of_zero, *partial_sums(0.25)):
        assert uniformity(words) > ERROR_RATE
    assert alike(of_zero[0], partial_sums(1.0)[0]) > ERROR_RATE


@pytest.mark.parametrize("member", range(4))
@pytest.mark.parametrize("value", [0.0, 0.25, -4.0])
@pytest.mark.parametrize("layout", [LAYOUT, SHORT])
def test_masked_vectors_of_a_constant_are_uniform(value, member, layout):
    words = masked(value, member, layout=layout)
    assert uniformity(words) > ERROR_RATE
    assert uniformity(between_chunks(words, layout)) > ERROR_RATE


def test_masked_vectors_of_two_members_are_distributed_alike_with_no_word_in_common():
    """Of 20 002 words of equal updates, 5e-6 are expected to be equal."""
    assert alike(masked(0.0), masked(3.5, member=2)) > ERROR_RATE
    assert not np.any(masked(0.25, 0) == masked(0.25, 3))


def test_each_mask_alone_makes_a_vector_uniform():
    """The self mask, once the pairwise masks are opened; the pairwise masks, once the self mask is."""
    of_pairs, own = masked(0.25), self_seed(SECRETS[2], SID, KEYS[1])
    for index in range(LAYOUT.chunks):
        mask = np.zeros(LAYOUT.length(index), dtype="<u4")
        Stream(own).add_to(mask, LAYOUT.chunk(index).start)
        of_pairs[LAYOUT.chunk(index)] -= mask
    assert uniformity(masked(0.25, pairs=[None] * 4)) > ERROR_RATE
    assert uniformity(of_pairs) > ERROR_RATE


def test_without_masks_uniformity_fails(monkeypatch):
    """The planted fault: every word of every mask is zero."""
    monkeypatch.setattr(prg, "words", lambda _seed, _start, count: np.zeros(count, dtype="<u4"))
    assert uniformity(partial_sums(0.25)[0]) < ERROR_RATE
    for name in ("add_to", "subtract_from"):
        monkeypatch.setattr(Stream, name, lambda _stream, _target, _start: None)
    assert uniformity(masked(0.25)) < ERROR_RATE
    assert alike(masked(0.0), masked(3.5)) < ERROR_RATE


def test_a_mask_that_starts_anew_in_each_piece_or_chunk_fails(monkeypatch):
    """The planted fault of the reference system: each part of the vector starts the same stream."""
    whole, add_to = prg.words, Stream.add_to
    monkeypatch.setattr(prg, "words", lambda seed, start, count: np.resize(whole(seed, start, 64), count))
    assert uniformity(partial_sums(0.25)[0]) < ERROR_RATE
    monkeypatch.setattr(Stream, "add_to", lambda mask, target, _start: add_to(mask, target, 0))
    monkeypatch.setattr(Stream, "subtract_from", lambda _mask, _target, _start: None)
    for layout in (LAYOUT, SHORT):
        assert uniformity(between_chunks(masked(0.25, layout=layout), layout)) < ERROR_RATE


def test_a_mask_of_less_than_all_bits_fails(monkeypatch):
    """The planted fault: a generator that never yields its topmost values."""
    add_to = Stream.add_to

    def narrow(stream: Stream, target: Words, start: int) -> None:
        mask = np.zeros(len(target), dtype="<u4")
        add_to(stream, mask, start)
        target += mask % np.uint32(2**32 - 2**29)

    monkeypatch.setattr(Stream, "add_to", narrow)
    monkeypatch.setattr(Stream, "subtract_from", lambda *_: None)
    assert uniformity(masked(0.0, pairs=[None] * 4)) < ERROR_RATE


def bias(point: FixedPoint, x: float, encode) -> float:
    """Returns the two-sided p-value of mean(q) = x s under the variance bound 1/4 of one rounding."""
    count = 1 << 18
    words = encode(np.full(count, x, dtype="<f4"))
    error = words.view("<i4").astype(np.float64) - np.float64(np.float32(x)) * point.scale
    return float(2 * norm.sf(abs(error.mean()) / (0.5 / np.sqrt(count))))


@pytest.mark.parametrize("x", [0.1, -0.3, 1e-9, 3.99, -1e-10])
def test_rounding_is_unbiased_and_rounding_down_is_found_to_be_biased(x):
    """The planted fault: no randomness."""
    point = FixedPoint(4.0, 10)
    down = lambda vector: np.floor(vector * point.scale).astype(np.int64).astype(np.uint32)  # noqa: E731
    assert bias(point, x, lambda vector: point.encode(vector, b"\x05" * 32)[0]) > ERROR_RATE
    assert bias(point, 0.1, down) < ERROR_RATE
