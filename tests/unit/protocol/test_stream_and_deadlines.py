"""Every bit of the seed changes every mask; deadlines follow what was measured."""

import numpy as np
import pytest

from protocol.adaptive_timeouts import FIRST_VIEW, Pace, PhasePaces
from protocol.aggregation.reorder_buffer import ReorderBuffer
from protocol.crypto import prg
from protocol.vectors.pieces import PIECE_WORDS, piece, piece_bytes, piece_count, pieces
from protocol.wire.messages import Share


def test_flipping_any_of_the_256_seed_bits_changes_the_words():
    """No bit is folded away: of 64 words, none may stay (chance 256 * 64 / 2^32 = 4e-6)."""
    seed = bytes(range(32))
    whole = prg.words(seed, 0, 64)
    for bit in range(256):
        flipped = bytearray(seed)
        flipped[bit // 8] ^= 1 << bit % 8
        assert not np.any(prg.words(bytes(flipped), 0, 64) == whole), bit


def test_words_do_not_depend_on_where_one_starts_to_read():
    whole = prg.words(bytes(32), 0, 64)
    for start in range(0, 64, 4):
        np.testing.assert_array_equal(prg.words(bytes(32), start, 64 - start), whole[start:])


def test_a_vector_is_cut_into_pieces_that_cover_it_once():
    for dimension in (1, PIECE_WORDS - 1, PIECE_WORDS, PIECE_WORDS + 1, 3 * PIECE_WORDS):
        parts = [part for _, part in pieces(dimension)]
        assert len(parts) == piece_count(dimension)
        assert sum(part.stop - part.start for part in parts) == dimension
        assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
        assert sum(piece_bytes(dimension, index) for index in range(len(parts))) == 4 * dimension
    assert piece(PIECE_WORDS + 1, 1) == slice(PIECE_WORDS, PIECE_WORDS + 1)


@pytest.mark.parametrize(
    ("within_s", "waits_s", "allowed_s"),
    [
        pytest.param((1.0, 15.0), [0.1, 0.1], 15.0, id="the cap until three waits were seen"),
        pytest.param((1.0, 15.0), [0.1] * 3, 1.0, id="not below the floor"),
        pytest.param(
            (0.1, 100.0), [1.0, 2.0, 4.0], 2 * (2.0 + 6 * 1.0), id="twice median and six deviations"
        ),
        pytest.param((1.0, 15.0), [10.0] * 3, 15.0, id="not above the cap"),
        pytest.param((5.0, 2.0), [0.0] * 3, 2.0, id="a cap below the floor wins"),
        pytest.param((0.5, 100.0), [1.0] * 4 + [50.0], 2.0, id="one slow wait does not move it"),
        pytest.param((0.5, 100.0), [1.0] * 4 + [50.0] + [3.0] * 32, 6.0, id="old ones are forgotten"),
    ],
)
def test_a_deadline_follows_the_waits_that_were_seen(within_s, waits_s, allowed_s):
    pace = Pace(*within_s)
    for seconds in waits_s:
        pace.observe(seconds)

    assert pace.allowed_s == pytest.approx(allowed_s)


ONE = b"1" * 32


def share(sid: bytes, size: int = 0) -> Share:
    return Share(sid, bytes(32), bytes(32), 0, bytes(size))


def test_early_messages_are_handed_on_to_their_session_in_order_and_once():
    early = ReorderBuffer()
    mine, other = share(b"m" * 32, 1), share(b"o" * 32)
    for message in (mine, other, share(b"m" * 32, 2)):
        early.hold(message, ONE, is_expected=True)

    assert early.take(b"m" * 32) == [mine, share(b"m" * 32, 2)]
    assert early.take(b"o" * 32) == []


def test_each_phase_has_a_cap_and_a_pace_of_its_own():
    paces = PhasePaces(shares_cap_s=90.0, sums_cap_s=60.0)
    assert (paces.shares_s, paces.sums_s) == (90.0, 60.0)
    for _ in range(3):
        paces.observe(shares_since=100.0, sums_since=104.0, now=114.0)

    assert (paces.shares_s, paces.sums_s) == (8.0, 20.0)


def test_a_phase_is_given_five_seconds_at_least_where_its_cap_allows_them():
    paces = PhasePaces(shares_cap_s=90.0, sums_cap_s=3.0)
    for _ in range(3):
        paces.observe(shares_since=0.0, sums_since=0.1, now=0.2)

    assert (paces.shares_s, paces.sums_s) == (5.0, 3.0)


def test_the_first_view_of_a_masked_session_has_what_sums_took_lately():
    paces = PhasePaces(15.0, 20.0)
    assert paces.views_s == pytest.approx(20.0)
    for _ in range(3):
        paces.observe(0.0, 1.0, 3.0)
    assert paces.views_s == pytest.approx(2 * 2.0 / FIRST_VIEW)
    for _ in range(32):
        paces.observe(0.0, 1.0, 1.1)
    assert paces.views_s == pytest.approx(3.0 / FIRST_VIEW)
