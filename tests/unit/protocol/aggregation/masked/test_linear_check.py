"""Sums with carries; the check refuses every planted lie, and its assumptions are recomputed."""

import itertools
from math import prod

import numpy as np
import pytest

from protocol.aggregation.masked import linear_check
from protocol.aggregation.masked.layout import Layout
from protocol.aggregation.masked.linear_check import COLUMNS, Coefficients, add_up
from protocol.errors import LocalProtocolError
from protocol.vectors.pieces import PIECE_WORDS, Words
from protocol.vectors.ring import NARROW, RINGS, WIDE, Ring
from protocol.wire.limits import CHECKS

SEED = bytes(range(32))
SMALL, LARGE = Layout(37, 4), Layout(100_000, 4)
SHORT_SMALL, SHORT_LARGE = Layout(36, 4, ring=NARROW), Layout(99_999, 4, ring=NARROW)


def vectors(members: int, words: int, seed: int = 0, ring: Ring = WIDE) -> list[Words]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 1 << ring.bits, words, dtype=ring.word.type) for _ in range(members)]


def whole(parts: list[Words]) -> np.ndarray:
    """Returns the sums as integers."""
    return np.sum([part.astype(np.int64) for part in parts], axis=0)


# -- sums and carries ----------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [0, 1, 5, linear_check._ADDED_WORDS, linear_check._ADDED_WORDS + 3])
@pytest.mark.parametrize("members", [0, 1, 3, 64])
@pytest.mark.parametrize("ring", RINGS.values(), ids=str)
def test_sums_and_carries_are_those_of_integers(members, words, ring):
    parts = vectors(members, words, ring=ring)
    total, carries = add_up([part.tobytes() for part in parts], words, ring)

    assert (total.dtype, carries.dtype) == (ring.word, np.uint8)
    expected = whole(parts) if members else np.zeros(words)
    np.testing.assert_array_equal(total + (carries.astype(np.int64) << ring.bits), expected)


def test_sums_of_64_largest_and_smallest_words_carry_63_and_nothing():
    for word, carried in ((2**32 - 1, 63), (0, 0), (2**26, 1), (2**26 - 1, 0)):
        parts = [np.full(7, word, dtype="<u4")] * 64
        total, carries = add_up([memoryview(part.tobytes()) for part in parts], 7)
        assert set(carries.tolist()) == {carried}
        assert set(total.tolist()) == {64 * word % 2**32}


@pytest.mark.parametrize("size", [0, 27, 29, 32])
def test_chunks_of_another_length_are_a_mistake(size):
    with pytest.raises(LocalProtocolError, match="not 28"):
        add_up([bytes(28), bytes(size)], 7)


# -- the check -----------------------------------------------------------------------------------------


def honest(layout: Layout, index: int, members: int = 4) -> tuple[Coefficients, list, Words, np.ndarray]:
    """Makes a check, the members' products of a chunk, and its total with carries."""
    parts = vectors(members, layout.length(index), seed=index, ring=layout.ring)
    check = Coefficients(SEED, layout)
    total, carries = add_up([part.tobytes() for part in parts], layout.length(index), layout.ring)
    return check, [check.products(index, part) for part in parts], total, carries


@pytest.mark.parametrize(
    ("layout", "index"),
    [(SMALL, 0), (LARGE, 0), (LARGE, LARGE.chunks - 1), (SHORT_SMALL, 0), (SHORT_LARGE, 3)],
)
def test_an_honest_total_is_accepted(layout, index):
    check, products, total, carries = honest(layout, index)

    assert check.agree(products, check.total_products(index, total, carries))


@pytest.mark.parametrize("layout", [SMALL, LARGE, SHORT_SMALL, SHORT_LARGE])
def test_products_are_the_sums_of_coefficients_times_words(layout):
    check, index = Coefficients(SEED, layout), layout.chunks - 1
    words = vectors(1, layout.length(index), ring=layout.ring)[0]
    u, v = check._vectors(index, len(words))
    for place, product in enumerate(check.products(index, words)):
        rows, columns = u[:, place].tolist(), v[:, place].tolist()
        terms = (rows[k // COLUMNS] * columns[k % COLUMNS] * word for k, word in enumerate(words.tolist()))
        assert product == sum(terms) % check.primes[place]


@pytest.mark.parametrize(("ring", "piece_bits"), [(WIDE, 10), (NARROW, 15)])
def test_products_of_the_largest_words_and_coefficients_are_exact(ring, piece_bits, monkeypatch):
    """1024 terms of the largest words and coefficients are below 2^53, and the rest below 2^63."""
    largest_word = (1 << ring.bits) - 1
    words = np.full(PIECE_WORDS, largest_word, dtype=ring.word)
    layout = Layout(4 * PIECE_WORDS - ring.counts, 4, ring=ring)
    check, most = Coefficients(SEED, layout), 2**30 - 1
    rows = PIECE_WORDS // COLUMNS
    largest = np.full((rows + COLUMNS, CHECKS), most, dtype=np.int64)
    monkeypatch.setattr(check, "_vectors", lambda *_: (largest[:rows], largest[rows:]))
    carries = np.full(PIECE_WORDS, 63, dtype=np.uint8)
    exact = PIECE_WORDS * most**2

    assert check._piece_bits == piece_bits
    assert COLUMNS * largest_word * (2**piece_bits - 1) < 2**53
    assert check.products(0, words) == tuple(exact * largest_word % prime for prime in check.primes)
    total = exact * (largest_word + (63 << ring.bits))
    assert check.total_products(0, words, carries) == tuple(total % prime for prime in check.primes)


def test_coefficients_are_others_in_each_chunk_and_check_and_for_each_seed():
    check = Coefficients(SEED, LARGE)
    drawn = [np.concatenate(check._vectors(index, LARGE.length(index)))[:9] for index in (0, 1)]
    drawn.append(np.concatenate(Coefficients(SEED[::-1], LARGE)._vectors(0, LARGE.length(0)))[:9])
    columns = [column.tobytes() for numbers in drawn for column in numbers.T]

    assert len(set(columns)) == 3 * CHECKS
    assert all(0 <= number < 2**30 for numbers in drawn for number in numbers.ravel())


@pytest.mark.parametrize("length", [0, 37, 39])
def test_a_chunk_of_another_length_is_a_mistake(length):
    check, words = Coefficients(SEED, SMALL), np.zeros(length, dtype="<u4")
    with pytest.raises(LocalProtocolError, match="of chunk 0, not 38"):
        check.products(0, words)
    with pytest.raises(LocalProtocolError, match="of chunk 0, not 38"):
        check.total_products(0, words, words.astype(np.uint8))


def accepts(check: Coefficients, products: list, total: np.ndarray) -> bool:
    """Returns whether a total given as integers below 2^38 passes."""
    words, carries = (total % 2**32).astype("<u4"), (total // 2**32).astype(np.uint8)
    return check.agree(products, check.total_products(0, words, carries))


@pytest.mark.parametrize("times", [1, -1, 2, 20, -20])
def test_an_error_that_a_fixed_prime_would_not_see_is_refused(times):
    """e = k (2^31 - 1) in one word, in all, and the same for a prime that was drawn: one check misses it."""
    check, products, total, carries = honest(SMALL, 0, 60)
    sums = total + carries.astype(np.int64) * 2**32
    for prime in (2**31 - 1, *check.primes):
        for places in (slice(5, 6), slice(None)):
            wrong = sums.copy()
            wrong[places] += times * prime
            assert not accepts(check, products, wrong)


@pytest.mark.parametrize("error", [1, -1, 2**15, 2**16, 5 * 2**16])
def test_an_error_of_short_words_or_their_carries_is_refused(error):
    check, products, total, carries = honest(SHORT_SMALL, 0)
    wrong = total + (carries.astype(np.int64) << 16)
    wrong[5] = wrong[5] + error if wrong[5] + error >= 0 else wrong[5] - error
    words, carried = (wrong % 2**16).astype("<u2"), (wrong >> 16).astype(np.uint8)

    assert not check.agree(products, check.total_products(0, words, carried))


def test_the_fault_of_one_prime_for_all_checks_is_what_lets_such_an_error_pass():
    """The planted fault: with a modulus known in advance, an error of that modulus is invisible."""
    fixed, parts = Coefficients(SEED, SMALL), vectors(4, 38)
    fixed.primes = (2**31 - 1,) * 3
    products = [fixed.products(0, part) for part in parts]
    sums = whole(parts)
    sums[5] += 2**31 - 1

    assert accepts(fixed, products, sums)
    assert not accepts(
        Coefficients(SEED, SMALL), [Coefficients(SEED, SMALL).products(0, y) for y in parts], sums
    )


@pytest.mark.parametrize("place", range(CHECKS))
def test_each_check_alone_refuses(place):
    check, products, total, carries = honest(SMALL, 0)
    wrong = list(check.total_products(0, total, carries))
    wrong[place] = (wrong[place] + 1) % check.primes[place]

    assert not check.agree(products, wrong)


def test_a_member_left_out_or_counted_twice_is_refused():
    check, products, total, carries = honest(SMALL, 0)
    together = check.total_products(0, total, carries)

    assert not check.agree(products[1:], together)
    assert not check.agree([*products, products[0]], together)


# -- primes --------------------------------------------------------------------------------------------


def test_primes_are_three_different_ones_of_31_bits_and_others_for_another_seed():
    drawn = [Coefficients(bytes([number]) * 32, SMALL).primes for number in range(40)]

    for primes in drawn:
        assert len(set(primes)) == 3
        for prime in primes:
            assert 2**30 < prime < 2**31
            assert all(prime % divisor for divisor in range(2, 46_341))
    assert len(set(itertools.chain(*drawn))) == 120


def test_a_prime_that_is_drawn_again_is_left_out(monkeypatch):
    first = [2**31 - 1, 2**31 - 1, 2**31 - 3, 2**31 - 19, 2**31 - 19, 2**31 - 61]
    monkeypatch.setattr(linear_check, "_candidates", lambda _seed: iter(first))

    assert linear_check._draw_primes(SEED) == (2**31 - 1, 2**31 - 19, 2**31 - 61)


def test_candidates_go_on_beyond_the_first_block():
    candidates = linear_check._candidates(SEED)
    drawn = [next(candidates) for _ in range(linear_check._DRAWN_WORDS + 40)]

    assert all(2**30 < number < 2**31 and number % 2 for number in drawn)
    assert len(set(drawn)) > linear_check._DRAWN_WORDS + 30


def test_primality_is_that_of_a_sieve():
    """All odd numbers in a range above 2^30, and strong pseudoprimes to the first bases."""
    low, high = 2**30 + 1, 2**30 + 40_001
    sieve = np.ones((high - low) // 2, dtype=bool)
    for divisor in range(3, 46_341, 2):
        first = -(-low // divisor) * divisor
        first += divisor * (first % 2 == 0)
        sieve[(first - low) // 2 :: divisor] = False
    found = [linear_check._is_prime(number) for number in range(low, high, 2)]

    assert found == sieve.tolist()
    for fooled in (1_373_653, 25_326_001, 1_157_839_381, 1_330_655_041, 2_047 * 2_047):
        assert not linear_check._is_prime(fooled)


def test_the_stated_soundness_follows_from_how_many_primes_there_are():
    """pi(2^31) - pi(2^30) = 105 097 565 - 54 400 028 (tables); two of them multiply beyond any error."""
    primes = 105_097_565 - 54_400_028
    one = 2 / 2**30

    assert primes == 50_697_537
    assert 3 / primes * one**2 + one**3 < 2**-81
    assert prod(sorted(Coefficients(SEED, SMALL).primes)[:2]) > 2**60 > 64 * 2**32
