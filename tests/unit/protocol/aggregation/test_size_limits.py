"""The longest vector: its messages about chunks still pass the codec, and those of a longer one do not."""

from __future__ import annotations

import pytest

from protocol.aggregation import size_limits
from protocol.aggregation.masked.layout import Layout
from protocol.errors import RemoteProtocolError
from protocol.vectors.pieces import PIECE_WORDS
from protocol.wire import codec
from protocol.wire.limits import MAX_MEMBERS, MAX_PIECES

SIZES = [4, 10, 20, MAX_MEMBERS]


def passes(message) -> bool:
    frame = codec.encode(message).join()
    try:
        return codec.decode(frame) == message
    except RemoteProtocolError:
        return False


@pytest.mark.parametrize("members", SIZES)
def test_a_lock_with_its_proof_passes_at_the_most_and_not_beyond(members):
    chunks = Layout(size_limits.most_masked(members), members).chunks
    assert size_limits.fits_masked(size_limits.most_masked(members), members)
    assert passes(size_limits._proposal(members, chunks))
    assert passes(size_limits._check(members, chunks))
    beyond = 2 * size_limits.most_masked(members)
    assert not size_limits.fits_masked(beyond, members)
    chunks = Layout(beyond, members).chunks
    assert not (
        passes(size_limits._proposal(members, chunks)) and passes(size_limits._check(members, chunks))
    )


@pytest.mark.parametrize("members", [3, *SIZES])
def test_a_link_with_its_certificate_passes_at_the_most_and_not_with_one_piece_more(members):
    most = size_limits.most_additive(members)
    pieces = most // PIECE_WORDS
    assert size_limits.fits_additive(most, members)
    assert passes(size_limits._link(members, pieces))
    assert not size_limits.fits_additive(most + 1, members)
    assert not passes(size_limits._link(members, pieces + 1))


def test_the_figures_that_the_documents_name():
    assert [size_limits.most_masked(n) for n in (10, 20, 64)] == [309_329_919, 199_229_439, 33_554_431]
    assert [size_limits.most_additive(n) for n in (3, 10, 64)] == [667_156_480, 195_821_568, 25_427_968]


def test_more_pieces_than_an_index_can_name_do_not_fit():
    assert not size_limits.fits_additive(PIECE_WORDS * MAX_PIECES + 1, 3)
    assert not size_limits.fits_masked(PIECE_WORDS * MAX_PIECES, 4)


def test_a_short_vector_has_no_chunks_to_speak_of():
    assert size_limits.fits_masked(100, MAX_MEMBERS)
