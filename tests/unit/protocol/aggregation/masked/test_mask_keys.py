"""Keys, commitments and masks: what each is bound to, and that every bit of a seed changes every word."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from protocol.aggregation.masked import mask_keys
from protocol.aggregation.masked.mask_keys import Kind
from protocol.crypto import prg, shamir
from protocol.crypto.prg import Stream
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.vectors.pieces import PIECE_WORDS
from protocol.vectors.ring import RINGS

SID, ONE, TWO, THREE = b"s" * 32, b"1" * 32, b"2" * 32, b"3" * 32
NEAR, FAR = mask_keys.secret_from(b"\xa1" * 32), mask_keys.secret_from(b"\xb2" * 32)
SEED = bytes(range(32))
SMALL_ORDER = [bytes(32), (1).to_bytes(32, "little"), (2**255 - 20).to_bytes(32, "little")]


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


# -- secrets -------------------------------------------------------------------------------------------


def test_a_secret_is_in_the_field_and_makes_the_same_key_as_its_seed():
    for seed in (b"\xff" * 32, SEED, SEED[::-1]):
        secret = mask_keys.secret_from(seed)
        assert secret < 2**254
        public = X25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
        assert mask_keys.public_key(secret) == public


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_secret_is_made_of_32_bytes(size):
    with pytest.raises(LocalProtocolError, match="a secret from"):
        mask_keys.secret_from(bytes(size))


def test_a_commitment_binds_secret_session_and_sender():
    known = mask_keys.commitment(NEAR, SID, ONE)
    others = {
        mask_keys.commitment(NEAR ^ 1, SID, ONE),
        mask_keys.commitment(NEAR, SID[1:] + b"t", ONE),
        mask_keys.commitment(NEAR, SID, TWO),
        mask_keys.self_seed(NEAR, SID, ONE),
    }

    assert len({known, *others}) == 5


def test_a_pair_s_seed_is_bound_to_the_session_and_both_members():
    public = mask_keys.public_key(FAR)
    seeds = {
        mask_keys.pair_seed(mask_keys.private_key(NEAR), public, SID, ONE, TWO),
        mask_keys.pair_seed(mask_keys.private_key(NEAR), public, SID[1:] + b"t", ONE, TWO),
        mask_keys.pair_seed(mask_keys.private_key(NEAR), public, SID, ONE, THREE),
        mask_keys.pair_seed(mask_keys.private_key(NEAR), public, SID, THREE, TWO),
        mask_keys.pair_seed(mask_keys.private_key(NEAR), mask_keys.public_key(FAR ^ 2**100), SID, ONE, TWO),
    }

    assert len(seeds) == 5


@pytest.mark.parametrize("public", SMALL_ORDER, ids=lambda public: public.hex()[:4])
def test_a_mask_key_of_small_order_is_refused(public):
    with pytest.raises(RemoteProtocolError, match="unusable mask key"):
        mask_keys.pair_seed(mask_keys.private_key(NEAR), public, SID, ONE, TWO)


def test_a_member_s_own_seed_is_bound_to_its_secret_session_and_key():
    seeds = {
        mask_keys.self_seed(NEAR, SID, ONE),
        mask_keys.self_seed(NEAR ^ 2**253, SID, ONE),
        mask_keys.self_seed(NEAR, SID[::-1][1:] + b"t", ONE),
        mask_keys.self_seed(NEAR, SID, TWO),
    }

    assert len(seeds) == 4


def test_the_digest_of_a_share_says_whose_it_is_and_for_whom():
    share = shamir.to_bytes(NEAR)
    digests = {
        mask_keys.share_digest(share, SID, ONE, Kind.SELF, 0),
        mask_keys.share_digest(flipped(share, 255), SID, ONE, Kind.SELF, 0),
        mask_keys.share_digest(share, SID[1:] + b"t", ONE, Kind.SELF, 0),
        mask_keys.share_digest(share, SID, TWO, Kind.SELF, 0),
        mask_keys.share_digest(share, SID, ONE, Kind.PAIR, 0),
        mask_keys.share_digest(share, SID, ONE, Kind.SELF, 1),
    }

    assert len(digests) == 6


def test_the_digest_of_a_list_depends_on_its_order_and_length():
    one, two = (mask_keys.shares_digest([part]) for part in (ONE, TWO))
    digests = {one, two, mask_keys.shares_digest([ONE, TWO]), mask_keys.shares_digest(iter([TWO, ONE]))}

    assert len({*digests, mask_keys.shares_digest([])}) == 5


# -- streams -------------------------------------------------------------------------------------------

_BUFFER_WORDS = prg._BUFFER_BYTES // 4
SIZES = [0, 1, 3, 4097, _BUFFER_WORDS, _BUFFER_WORDS + 5, PIECE_WORDS]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("block", [0, 1, PIECE_WORDS])
@pytest.mark.parametrize("ring", RINGS.values(), ids=str)
def test_what_is_added_is_the_words_of_the_stream(size, block, ring):
    before = np.arange(size)[::-1].astype(ring.word) * ring.word.type(59_999)
    target, start = before.copy(), block * ring.block_words
    Stream(SEED).add_to(target, start)

    stream = prg.words(SEED, 4 * block, -(-size * ring.word_bytes // 4)).view(ring.word)
    np.testing.assert_array_equal(target, before + stream[:size])
    Stream(SEED).subtract_from(target, start)
    np.testing.assert_array_equal(target, before)


@pytest.mark.parametrize(("start", "size"), [(1, 4), (6, 1), (0, PIECE_WORDS + 1)])
@pytest.mark.parametrize("change", [Stream.add_to, Stream.subtract_from])
def test_words_from_inside_a_block_or_beyond_a_piece_are_refused_and_change_nothing(change, start, size):
    target = np.zeros(size, dtype="<u4")
    with pytest.raises(LocalProtocolError, match="not from a block's start, or too many"):
        change(Stream(SEED), target, start)

    assert not target.any()


def test_any_bit_of_a_secret_that_counts_changes_both_masks():
    """X25519 ignores the lowest three bits of a secret, and nothing else of 254."""
    public, alike = mask_keys.public_key(FAR), []
    known = (
        mask_keys.self_seed(NEAR, SID, ONE),
        mask_keys.pair_seed(mask_keys.private_key(NEAR), public, SID, ONE, TWO),
    )
    for bit in range(254):
        secret = NEAR ^ 1 << bit
        assert mask_keys.self_seed(secret, SID, ONE) != known[0]
        if mask_keys.pair_seed(mask_keys.private_key(secret), public, SID, ONE, TWO) == known[1]:
            alike.append(bit)

    assert alike == [0, 1, 2]


def test_tensors_of_equal_shape_and_adjacent_chunks_have_different_masks():
    """A stream that starts anew would show the difference of two masked tensors."""
    words = 1 << 12
    vector = np.zeros(4 * words, dtype="<u4")
    for chunk in range(4):
        Stream(SEED).add_to(vector[chunk * words : (chunk + 1) * words], chunk * words)
    tensors = vector.reshape(4, words)

    for one in range(4):
        for other in range(one):
            assert np.count_nonzero(tensors[one] == tensors[other]) == 0
    np.testing.assert_array_equal(vector, prg.words(SEED, 0, 4 * words))


def test_threads_do_not_write_into_each_other_s_buffers():
    sizes = [_BUFFER_WORDS + 4 * number for number in range(8)]
    seeds = [bytes([number // 2]) * 32 for number in range(8)]
    shared = [Stream(seed) for seed in seeds[::2]]

    def mask(number: int) -> bool:
        target = np.zeros(sizes[number], dtype="<u4")
        for _ in range(4):
            shared[number // 2].add_to(target, 0)
            shared[number // 2].subtract_from(target, 0)
        shared[number // 2].add_to(target, 0)
        return bool((target == prg.words(seeds[number], 0, sizes[number])).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(mask, range(8)))


def test_two_streams_read_at_once_in_one_thread_have_a_buffer_each():
    target = np.zeros(8, dtype="<u4")
    pairs = zip(Stream(SEED).blocks(0, target), Stream(SEED[::-1]).blocks(4, target), strict=True)
    for (_, one), (_, other) in pairs:
        np.testing.assert_array_equal(one, prg.words(SEED, 0, 8))
        np.testing.assert_array_equal(other, prg.words(SEED[::-1], 4, 8))


def test_buffers_are_used_again(monkeypatch):
    monkeypatch.setattr(prg, "_idle", [])
    for _ in range(3):
        Stream(SEED).add_to(np.zeros(8, dtype="<u4"), 0)
    next(Stream(SEED).blocks(0, np.zeros(2 * prg._BUFFER_BYTES, dtype="<u4")))

    assert len(prg._idle) == 1
