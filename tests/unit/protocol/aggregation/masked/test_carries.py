"""Carries as bytes: how many they are, and that nobody's other bytes are taken for carries."""

import numpy as np
import pytest

from protocol.aggregation.masked.carries import pack, unpack, usual_bytes
from protocol.errors import RemoteProtocolError

WORDS = 36


def written(rare: list[tuple[int, int]], codes: int = 0, spare: int = 0) -> bytes:
    """Writes carries of ten members: all of one code, but for these (place, carry); `spare` bits follow."""
    planes = [0xFFFFFFFFF * (codes >> bit & 1) for bit in range(3)]
    for place, carry in rare:
        planes = [plane & ~(1 << place) | (carry >> bit & 1) << place for bit, plane in enumerate(planes)]
    planes[1] |= spare << 36
    listed = b"".join((place << 6 | carry).to_bytes(4, "little") for place, carry in rare)
    return b"".join(plane.to_bytes(5, "little") for plane in planes) + listed


@pytest.mark.parametrize(
    ("members", "bits"), [(1, 1), (4, 2), (5, 3), (9, 3), (10, 3), (16, 3), (17, 4), (64, 4)]
)
def test_the_carries_of_uniform_words_take_two_to_four_bits_and_hardly_any_is_rare(members, bits):
    rng, words = np.random.default_rng(members), 20_000
    whole = rng.integers(0, 1 << 32, (members, words)).sum(axis=0)
    carries = (whole >> 32).astype(np.uint8)
    packed = pack(carries, members)
    assert usual_bytes(words, members) == bits * words // 8
    assert len(packed) - bits * words // 8 <= 4 * 0.001 * words
    assert unpack(memoryview(packed), words, members).tolist() == carries.tolist()


@pytest.mark.parametrize("size", [0, 11, 14, 16, 17, 18, 34, 37, 39])
def test_a_number_of_bytes_that_no_carries_have_is_refused(size):
    with pytest.raises(RemoteProtocolError, match=f"{size} bytes of carries for {WORDS} sums of 10"):
        unpack(bytes(size), WORDS, 10)


@pytest.mark.parametrize(
    ("payload", "members"),
    [
        pytest.param(written([], spare=1), 10, id="a bit behind the last carry"),
        pytest.param(written([(3, 4)], codes=4), 10, id="listed though it is in the window"),
        pytest.param(written([(3, 17)], codes=1), 10, id="more than any sum of ten carries"),
        pytest.param(written([], 4) + b"\x09\x09\0\0", 10, id="beyond the end"),
        pytest.param(written([], 4) + b"\xc9\0\0\0", 10, id="other low bits than the list says"),
        pytest.param(written([(7, 9), (3, 0)], codes=4), 10, id="out of order"),
        pytest.param(written([(3, 9), (3, 9)], codes=4), 10, id="listed twice"),
        pytest.param(written([], codes=5), 5, id="five of five members"),
        pytest.param(bytes([4] * WORDS), 10, id="a byte each where bits are enough"),
        pytest.param(bytes([0, 10] * 18), 10, id="a byte that is no carry"),
    ],
)
def test_bytes_that_pack_never_returns_are_refused(payload, members):
    with pytest.raises(RemoteProtocolError, match="are not the carries of 36 sums"):
        unpack(payload, WORDS, members)


def test_what_the_refused_bytes_resemble_is_read():
    carries = [4] * WORDS
    assert unpack(written([], codes=4), WORDS, 10).tolist() == carries
    carries[3], carries[7] = 0, 9
    assert unpack(written([(3, 0), (7, 9)], codes=4), WORDS, 10).tolist() == carries
    assert unpack(bytes([0, 9] * 18), WORDS, 10).tolist() == [0, 9] * 18
    assert unpack(written([], codes=4), WORDS, 5).tolist() == [4] * WORDS
