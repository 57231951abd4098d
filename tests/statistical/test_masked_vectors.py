"""Masked vectors look uniform for any content, with either mask alone: fixed seeds, planted faults.

As in `test_masks`: a fresh draw would exceed the threshold with probability 1e-6, each planted fault does.
"""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import chi2

from protocol.aggregation.fixed_point import FixedPoint
from protocol.aggregation.masked.chunks import MaskedVector, masks_of
from protocol.aggregation.masked.layout import Layout
from protocol.aggregation.masked.mask_keys import pair_seed, public_key, secret_from, self_seed
from protocol.crypto.prg import Stream
from protocol.vectors.pieces import Words
from tests.parts import members

ERROR_RATE = 1e-6
LAYOUT = Layout(20_001, 4)
SID = b"s" * 32
KEYS = [key.public for key in members(4)]
SECRETS = [secret_from(bytes([0x31 + number]) * 32) for number in range(4)]


def pair_seeds(member: int) -> list[bytes | None]:
    return [
        None
        if other == member
        else pair_seed(SECRETS[member], public_key(secret), SID, KEYS[member], KEYS[other])
        for other, secret in enumerate(SECRETS)
    ]


def masked(value: float, member: int = 1, pairs: Sequence[bytes | None] | None = None) -> Words:
    """Returns the masked vector of a constant, as the network carries it."""
    own = self_seed(SECRETS[3 - member], SID, KEYS[member])
    of = masks_of(member, own, pair_seeds(member) if pairs is None else pairs, b"\x09" * 32)
    x = np.full(LAYOUT.dimension, value, dtype="<f4")
    made = MaskedVector(x, of, FixedPoint(4.0, 4), LAYOUT, members(4)[member], SID)
    return np.concatenate([made.words(index) for index in range(LAYOUT.chunks)])


def counts(words: Words) -> np.ndarray:
    return np.bincount(words.view(np.uint8), minlength=256).astype(np.float64)


def uniformity(words: Words) -> float:
    """Returns the p-value of Pearson's chi-square over all bytes against the uniform distribution."""
    seen = counts(words)
    return float(chi2.sf(((seen - seen.mean()) ** 2 / seen.mean()).sum(), 255))


def alike(first: Words, second: Words) -> float:
    """Returns the p-value of the two-sample chi-square over all bytes."""
    one, two = counts(first), counts(second)
    return float(chi2.sf(((one - two) ** 2 / np.maximum(one + two, 1)).sum(), 255))


@pytest.mark.parametrize("member", range(4))
@pytest.mark.parametrize("value", [0.0, 0.25, -4.0])
def test_masked_vectors_of_a_constant_are_uniform(value, member):
    assert uniformity(masked(value, member)) > ERROR_RATE


def test_each_mask_alone_makes_a_vector_uniform():
    """The self mask, once the pairwise masks are opened; the pairwise masks, once the self mask is."""
    of_pairs = masked(0.25)
    add_stream_backwards(of_pairs, self_seed(SECRETS[2], SID, KEYS[1]))

    assert uniformity(masked(0.25, pairs=[None] * 4)) > ERROR_RATE
    assert uniformity(of_pairs) > ERROR_RATE


def add_stream_backwards(words: Words, seed: bytes) -> None:
    """Removes a mask, chunk by chunk, with `Stream.add_to` only."""
    for index in range(LAYOUT.chunks):
        part = LAYOUT.chunk(index)
        mask = np.zeros(LAYOUT.length(index), dtype="<u4")
        Stream(seed).add_to(mask, part.start)
        words[part] -= mask


def test_masked_vectors_of_two_constants_are_distributed_alike():
    assert alike(masked(0.0), masked(3.5, member=2)) > ERROR_RATE


def test_masked_vectors_of_two_members_with_equal_updates_have_no_word_in_common():
    """Of 20 002 words, 5e-6 are expected to be equal."""
    assert not np.any(masked(0.25, 0) == masked(0.25, 3))


def test_the_difference_of_two_chunks_is_uniform():
    """A stream that starts anew in each chunk would show the difference of the masked content."""
    words, length = masked(0.25), LAYOUT.length(0)
    difference = words[:length] - words[length : 2 * length]

    assert uniformity(difference) > ERROR_RATE


# -- planted faults ------------------------------------------------------------------------------------


def test_without_masks_uniformity_fails(monkeypatch):
    for name in ("add_to", "subtract_from"):
        monkeypatch.setattr(Stream, name, lambda _stream, _target, _start: None)

    assert uniformity(masked(0.25)) < ERROR_RATE
    assert alike(masked(0.0), masked(3.5)) < ERROR_RATE


def test_a_mask_that_starts_anew_in_each_chunk_fails(monkeypatch):
    add_to = Stream.add_to
    monkeypatch.setattr(Stream, "add_to", lambda mask, target, _start: add_to(mask, target, 0))
    monkeypatch.setattr(Stream, "subtract_from", lambda _mask, _target, _start: None)
    words, length = masked(0.25), LAYOUT.length(0)

    assert uniformity(words[:length] - words[length : 2 * length]) < ERROR_RATE


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
