"""Words: seeded ones repeat, the system's never do, whatever the size of a fill; none is left out."""

import os

import numpy as np
import pytest

from mechanisms.noise import randomness
from mechanisms.noise.randomness import SystemWords, uniform64
from tests.unit.mechanisms.settings import words as seeded

PIECE = 1 << 16


def filled(words, count):
    out = np.zeros(count, dtype=np.uint32)
    words.fill(out)
    return out


@pytest.mark.parametrize("make", [SystemWords, seeded])
@pytest.mark.parametrize("count", [0, 1, 3, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5])
def test_every_word_is_filled_and_none_comes_twice(make, count):
    """4 * 2^16 words of 32 bits: a fair draw has about 5 collisions and a zero with probability 4.6e-5."""
    words = make()
    first, second = filled(words, count), filled(words, count)
    assert np.count_nonzero(first) >= count - 1
    assert np.count_nonzero(first == second) <= 2
    assert len(np.unique(first)) >= count - 40
    assert np.array_equal(filled(make(), count), first) == (make is seeded or count == 0), "a seed repeats"
    assert not np.array_equal(filled(seeded(1), 100), filled(seeded(), 100))


def test_words_of_64_bits_are_taken_whole():
    drawn = uniform64(1000, seeded(1))
    assert len(np.unique(drawn)) == 1000
    assert all(len(np.unique(half)) > 990 for half in (drawn >> np.uint64(32), drawn & np.uint64(2**32 - 1)))


def test_a_key_serves_for_so_many_bytes_and_no_more(monkeypatch):
    """With one and the same key drawn each time, a renewal shows as the words of the beginning."""
    monkeypatch.setattr(randomness, "_BYTES_A_KEY", 64)
    words = SystemWords(bytes)
    first, second, third = (filled(words, 8) for _ in range(3))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, third)


def test_a_forked_process_draws_its_own_key(monkeypatch):
    """The process's number is all that tells a fork; the key is drawn afresh when it is another."""
    drawn = []
    words = SystemWords(lambda count: drawn.append(count) or bytes(count))
    filled(words, 8)
    assert drawn == [32]
    monkeypatch.setattr(os, "getpid", lambda: -1)
    filled(words, 8)
    filled(words, 8)
    assert drawn == [32, 32]


def test_system_words_are_aes_256_in_counter_mode():
    """NIST AES-256, key and block all zeros: dc95c078a2408989ad48a21492842087."""
    assert filled(SystemWords(bytes), 4).tobytes().hex() == "dc95c078a2408989ad48a21492842087"


@pytest.mark.parametrize("make", [SystemWords, seeded])
def test_what_is_not_a_row_of_words_is_refused(make):
    with pytest.raises(TypeError, match=r"out holds int32; allowed: uint32"):
        make().fill(np.zeros(4, dtype=np.int32))
    for out in (np.zeros((2, 2), dtype=np.uint32), np.zeros(8, dtype=np.uint32)[::2]):
        with pytest.raises(ValueError, match=r"allowed: \(n,\), contiguous"):
            make().fill(out)
