"""CPace: the draft's vectors, and that only equal inputs give equal keys."""

import pytest

from protocol.crypto import cpace
from protocol.crypto.cpace import Run, generator, prefixed, session_key, tag, times
from protocol.errors import RemoteProtocolError

H = bytes.fromhex
SID, CHANNEL = H("7e4b4791d6a8ef019b936c79fb7f2c57"), prefixed(b"A_initiator", b"B_responder")
GENERATOR = H("d04bf6d41f6a289632a2e929fa29bebd51092512a7829fdde7d314b62f05a73f")
FIRST = H("21b4f4bd9e64ed355c3eb676a28ebedaf6d8f17bdc365995b319097153044080")
SECOND = H("848b0779ff415f0af4ea14df9dd1d3c29ac41d836c7808896c4eba19c51ac40a")
FIRST_SHARE = H("1d13c89278cdadd826f6d8d7f887701430f8380ddc17611cdd6dc989ce0c9f32")
SECOND_SHARE = H("248cccf6d5cdc3646f0ad593f9e6cef4e69d4945f8372e623512ecea32185623")
COMMON = H("5b067effbdc0b2a0e1d907b21ebb25cfedb96a852179a847c37e43ee71322c6b")
ISK = H(
    "6e19b875f7a561d6b3ca3dbb9ef42ac55de3e717881018204b8922b4d5e53bb2"
    "aa82c300bea7b65d2b671da71922ddf6472301b79bc270adfa8bf413285f2263"
)
SMALL_ORDER = [
    "00" * 32,
    "01" + "00" * 31,
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]


def test_the_draft_has_this_generator():
    assert generator(b"Password", CHANNEL, SID) == GENERATOR


def test_the_draft_has_these_shares_and_this_key():
    assert times(FIRST, GENERATOR) == FIRST_SHARE
    assert times(SECOND, GENERATOR) == SECOND_SHARE
    assert times(FIRST, SECOND_SHARE) == times(SECOND, FIRST_SHARE) == COMMON
    assert session_key(SID, COMMON, (FIRST_SHARE, b"ADa"), (SECOND_SHARE, b"ADb")) == ISK


@pytest.mark.parametrize("point", SMALL_ORDER)
def test_a_point_of_small_order_is_refused(point):
    with pytest.raises(RemoteProtocolError, match="small order"):
        times(FIRST, H(point))


def test_a_point_of_another_length_is_refused():
    with pytest.raises(RemoteProtocolError):
        times(FIRST, b"\x09" * 31)


@pytest.mark.parametrize(
    ("parts", "written"),
    [
        ((), ""),
        ((b"",), "00"),
        ((b"a", b"bc"), "0161026263"),
        ((bytes(127),), "7f" + "00" * 127),
        ((bytes(128),), "8001" + "00" * 128),
        ((bytes(2**14),), "808001" + "00" * 2**14),
    ],
)
def test_lengths_are_written_in_leb128(parts, written):
    assert prefixed(*parts).hex() == written


def test_both_branches_of_the_map_end_on_the_curve():
    def is_square(r: int) -> bool:
        x = -cpace._CURVE * pow(1 + 2 * r * r, -1, cpace._FIELD) % cpace._FIELD
        return pow(x**3 + cpace._CURVE * x * x + x, (cpace._FIELD - 1) // 2, cpace._FIELD) <= 1

    assert {is_square(r) for r in range(1, 20)} == {False, True}
    for r in range(20):
        u = cpace._to_curve(r)
        assert pow(u**3 + cpace._CURVE * u * u + u, (cpace._FIELD - 1) // 2, cpace._FIELD) <= 1


def test_a_long_password_needs_no_padding():
    assert len(generator(b"p" * 200, CHANNEL, SID)) == cpace.POINT_BYTES


@pytest.mark.parametrize(
    "other", [(b"Passwort", CHANNEL, SID), (b"Password", b"else", SID), (b"Password", CHANNEL, SID[::-1])]
)
def test_another_password_channel_or_session_gives_another_generator(other):
    assert generator(*other) != GENERATOR


def test_both_ends_of_a_run_get_the_drafts_key_and_prove_it_to_each_other():
    labels = (b"ADa", b"ADb")
    one, other = Run(b"ADa", labels, FIRST, GENERATOR, SID), Run(b"ADb", labels, SECOND, GENERATOR, SID)
    assert (one.share, other.share) == (FIRST_SHARE, SECOND_SHARE)
    here, there = one.finish(SECOND_SHARE), other.finish(FIRST_SHARE)
    assert here.key == there.key == ISK
    assert here.is_proved(there.own)
    assert there.is_proved(here.own)
    assert not here.is_proved(here.own)


def test_a_tag_proves_one_share_of_one_session():
    usual = (ISK, SID, FIRST_SHARE, b"guest")
    others = [(ISK[::-1], *usual[1:]), (ISK, SID[::-1], *usual[2:]), (ISK, SID, SECOND_SHARE, b"guest")]
    tags = {tag(*each) for each in (usual, *others, (*usual[:3], b"host"))}
    assert {len(each) for each in tags} == {cpace.TAG_BYTES}
    assert len(tags) == 5
