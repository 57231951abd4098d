"""A sealed share opens only in its session, in its direction, at its index, and unchanged."""

import pytest

from protocol.crypto.sealing import Ephemeral, check_public, derive
from protocol.errors import RemoteProtocolError

SID, FROM, TO = b"s" * 32, b"f" * 32, b"t" * 32
NEAR, FAR = Ephemeral(b"\x01" * 32), Ephemeral(b"\x02" * 32)
HEADER = b"header"
FIELD = 2**255 - 19
ORDER_8 = (
    0x00B8495F16056286FDB1329CEB8D09DA6AC49FF1FAE35616AEB8413B7C7AEBE0,
    0x57119FD0DD4E22D8868E1C58C45C44045BEF839C55B1D0B1248C50A3BC959C5F,
)
REDUCED = [u for small in (0, 1, FIELD - 1, *ORDER_8) for u in (small, small + FIELD) if u < 2**255]
SMALL_ORDER = [(u + sign).to_bytes(32, "little") for u in REDUCED for sign in (0, 2**255)]
"""All that stand for the points of small order, in any of their forms."""


def sealed(index: int = 3) -> bytes:
    return NEAR.channel(FAR.public, SID, FROM, TO).seal(index, HEADER, b"plain")


def opened(sealed: bytes, sid=SID, sender=FROM, recipient=TO, index=3, header=HEADER, end=FAR) -> bytes:
    return end.channel(NEAR.public, sid, sender, recipient).open(index, header, sealed)


def test_what_one_end_seals_the_other_opens():
    assert opened(sealed()) == b"plain"


@pytest.mark.parametrize(
    "changed",
    [
        {"sid": b"S" * 32},
        {"sender": TO, "recipient": FROM},
        {"sender": b"x" * 32},
        {"recipient": b"x" * 32},
        {"index": 4},
        {"header": b"Header"},
        {"end": Ephemeral(b"\x03" * 32)},
    ],
    ids=[
        "wrong sid",
        "wrong direction",
        "wrong sender",
        "wrong recipient",
        "wrong index",
        "wrong header",
        "wrong key",
    ],
)
def test_it_does_not_open_anywhere_else(changed):
    with pytest.raises(RemoteProtocolError, match="does not open"):
        opened(sealed(), **changed)


def test_it_does_not_open_with_any_bit_changed():
    whole = sealed()
    for bit in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RemoteProtocolError, match="does not open"):
            opened(bytes(changed))


@pytest.mark.parametrize("length", [0, 15])
def test_what_is_shorter_than_a_tag_does_not_open(length):
    with pytest.raises(RemoteProtocolError, match="does not open"):
        opened(sealed()[:length])


def test_the_same_plaintext_is_sealed_differently_at_each_index():
    assert sealed(0) != sealed(1)


@pytest.mark.parametrize("public", [*SMALL_ORDER, bytes(31)])
def test_an_ephemeral_key_that_gives_no_secret_is_refused(public):
    with pytest.raises(RemoteProtocolError, match="unusable ephemeral key"):
        NEAR.channel(public, SID, FROM, TO)
    with pytest.raises(RemoteProtocolError, match="unusable ephemeral key"):
        check_public(public)


def test_each_label_and_context_gives_a_value_of_its_own():
    root = b"\x07" * 32
    values = [
        derive(root, b"mask", FROM),
        derive(root, b"mask", TO),
        derive(root, b"rounding"),
        derive(TO, b"mask", TO),
    ]

    assert len(set(values)) == len(values)
    assert {len(value) for value in values} == {32}
