"""Shares, sums, carries and the check on random input: equal to the results with integers."""

from collections.abc import Sequence

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from protocol.aggregation.masked import mask_keys
from protocol.aggregation.masked.carries import pack, unpack, usual_bytes
from protocol.aggregation.masked.layout import Layout
from protocol.aggregation.masked.linear_check import Coefficients, add_up
from protocol.crypto.prg import Stream
from protocol.crypto.shamir import PRIME, combine, from_bytes, split, to_bytes, weights
from protocol.errors import RemoteProtocolError
from protocol.wire.limits import CHECKS

SEEDS = st.binary(min_size=32, max_size=32)
SECRETS = st.integers(0, PRIME - 1) | st.sampled_from([0, 1, PRIME - 1, 2**254 - 1])
WORDS = st.integers(0, 2**32 - 1) | st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1])


@st.composite
def splits(draw):
    """Draws (secret, threshold, members, shares)."""
    members = draw(st.integers(1, 12))
    threshold = draw(st.integers(1, members))
    secret = draw(SECRETS)
    return secret, threshold, members, split(secret, threshold, members, draw(SEEDS))


@given(splits(), st.data())
def test_any_threshold_or_more_shares_in_any_order_give_the_secret(case, data):
    secret, threshold, members, shares = case
    some = data.draw(st.permutations(range(members)))[: data.draw(st.integers(threshold, members))]
    assert combine([shares[number] for number in some], weights(some)) == secret
    assert [from_bytes(to_bytes(share)) for share in shares] == list(shares)


@given(splits(), SECRETS, st.data())
def test_any_threshold_less_one_shares_are_those_of_any_other_secret_too(case, other, data):
    """The polynomial through them and the other secret at 0 has the right degree, so both are possible."""
    _, threshold, members, shares = case
    known = data.draw(st.permutations(range(members)))[: threshold - 1]
    points = {0: other, **{number + 1: shares[number] for number in known}}
    again = [_through(points, number + 1) for number in range(members)]
    some = data.draw(st.permutations(range(members)))[:threshold]
    assert [again[number] for number in known] == [shares[number] for number in known]
    assert combine([again[number] for number in some], weights(some)) == other


def _through(points: dict[int, int], x: int) -> int:
    """Returns the value at x of the polynomial of least degree through these points (Lagrange)."""
    total = 0
    for at, value in points.items():
        term = value
        for other in points:
            if other != at:
                term = term * (x - other) * pow(at - other, -1, PRIME) % PRIME
        total += term
    return total % PRIME


@given(splits(), st.data(), st.integers(1, PRIME - 1))
def test_a_changed_share_gives_another_secret(case, data, change):
    secret, threshold, members, shares = case
    some = data.draw(st.permutations(range(members)))[:threshold]
    wrong = [shares[number] for number in some]
    at = data.draw(st.integers(0, threshold - 1))
    wrong[at] = (wrong[at] + change) % PRIME
    assert combine(wrong, weights(some)) != secret


@settings(max_examples=25)
@given(st.lists(SEEDS, min_size=4, max_size=6, unique=True), st.integers(0, 70), st.integers(0, 9), st.data())
def test_in_the_sum_of_all_only_what_was_encoded_and_the_own_masks_are_left(seeds, words, block, data):
    secrets = [mask_keys.secret_from(seed) for seed in seeds]
    public = [mask_keys.public_key(secret) for secret in secrets]
    lines = [data.draw(arrays(np.uint32, words, elements=WORDS)) for _ in seeds]
    total = np.zeros(words, dtype="<u4")
    for i, line in enumerate(lines):
        masked = line.copy()
        for j in (j for j in range(len(seeds)) if j != i):
            private = mask_keys.private_key(secrets[i])
            seed = mask_keys.pair_seed(private, public[j], bytes(32), bytes([i]) * 32, bytes([j]) * 32)
            (Stream.add_to if i < j else Stream.subtract_from)(Stream(seed), masked, 4 * block)
        Stream(seeds[i]).add_to(masked, 4 * block)
        total += masked
    for seed in seeds:
        Stream(seed).subtract_from(total, 4 * block)
    np.testing.assert_array_equal(total, np.sum(lines, axis=0, dtype=np.uint32))


@st.composite
def sums(draw, most: int = 8):
    """Draws (included vectors (m, w) uint32, group size): also one word, odd counts, and more than a row."""
    included, words = draw(st.integers(1, most)), draw(st.integers(1, 9) | st.just(1030))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    vectors = rng.integers(0, 2**32, (included, words), dtype=np.uint32)
    for number in range(included):
        place = draw(st.integers(0, words - 1))
        vectors[number, place] = draw(WORDS)
    return vectors, draw(st.integers(included, 64))


def integers(vectors: np.ndarray) -> list[int]:
    return [sum(column) for column in vectors.T.tolist()]


@given(sums(), SEEDS)
def test_sums_over_any_members_are_those_of_integers_survive_as_carries_and_pass_the_check(case, seed):
    vectors, members = case
    words = vectors.shape[1]
    total, carries = add_up([line.tobytes() for line in vectors], words)
    packed = pack(carries, members)
    whole = [low + 2**32 * high for low, high in zip(total.tolist(), carries.tolist(), strict=True)]
    assert whole == integers(vectors)
    assert usual_bytes(words, members) <= len(packed) <= words
    assert unpack(packed, words, members).tolist() == carries.tolist()
    check = check_of(vectors, members, seed)
    assert accepts(check, vectors, whole)
    assert len(set(check.primes)) == CHECKS
    assert all(2**30 < prime < 2**31 and pow(11, prime - 1, prime) == 1 for prime in check.primes)


@given(st.binary(max_size=12), st.integers(0, 12), st.integers(1, 64), st.binary(min_size=30, max_size=34))
def test_any_bytes_are_packed_carries_or_refused_and_so_are_numbers_of_the_field(
    payload, words, members, data
):
    try:
        assert to_bytes(from_bytes(data)) == data
    except RemoteProtocolError:
        assert len(data) != 32 or int.from_bytes(data, "little") >= PRIME
    try:
        carries = unpack(payload, words, members)
    except RemoteProtocolError:
        return
    assert carries.max(initial=0) < members
    assert pack(carries, members) == payload


def accepts(check: Coefficients, vectors: np.ndarray, claimed: Sequence[int]) -> bool:
    """Returns whether a total, claimed as integers, passes against the products of the members."""
    total = np.array([number % 2**32 for number in claimed], dtype="<u4")
    carries = np.array([number >> 32 for number in claimed], dtype=np.uint8)
    products = [check.products(0, line) for line in vectors]
    return check.agree(products, check.total_products(0, total, carries))


def check_of(vectors: np.ndarray, members: int, seed: bytes) -> Coefficients:
    return Coefficients(seed, Layout(vectors.shape[1] - 1, members))


@given(sums(), SEEDS, st.data())
def test_the_check_refuses_any_error_of_words_and_carries(case, seed, data):
    """+-1, 2^31, a carry alone, a known prime, a drawn prime, or any error in some of the words."""
    vectors, members = case
    check, claimed = check_of(vectors, members, seed), integers(vectors)
    planted = [1, 2**31, 2**32, 2**31 - 1, *check.primes, check.primes[0] * 2]
    errors = st.sampled_from(planted + [-error for error in planted]) | st.integers(-(2**33), 2**33)
    places = data.draw(st.lists(st.integers(0, len(claimed) - 1), min_size=1, max_size=4, unique=True))
    for place in places:
        claimed[place] = min(64 * 2**32 - 1, max(0, claimed[place] + data.draw(errors)))
    assume(claimed != integers(vectors))
    assert not accepts(check, vectors, claimed)


@given(sums(), SEEDS, st.data())
def test_the_check_refuses_two_words_changed_places(case, seed, data):
    vectors, members = case
    claimed = integers(vectors)
    one, other = (data.draw(st.integers(0, len(claimed) - 1)) for _ in range(2))
    assume(claimed[one] != claimed[other])
    claimed[one], claimed[other] = claimed[other], claimed[one]
    assert not accepts(check_of(vectors, members, seed), vectors, claimed)
