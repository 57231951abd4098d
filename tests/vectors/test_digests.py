"""The digest of bulk against its paper: published values, and a second implementation."""

import pytest

from protocol.crypto.bulk_digest import bulk_digest
from tests.vectors.blake3_reference import blake3

PUBLISHED = {
    0: "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
    1: "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213",
}
"""Of the first bytes of 0, 1, ..., 250, 0, 1, ...: test vectors of the authors."""


def counted(length: int) -> bytes:
    return bytes(number % 251 for number in range(length))


@pytest.mark.parametrize(("length", "digest"), PUBLISHED.items())
def test_published_values(length, digest):
    assert blake3(counted(length)).hex() == bulk_digest(counted(length)).hex() == digest


@pytest.mark.parametrize("length", [63, 64, 65, 1023, 1024, 1025, 2048, 2049, 3073, 4096, 5121, 31_744])
def test_block_chunk_and_tree_boundaries(length):
    data = counted(length)
    assert bulk_digest(data) == bulk_digest(bytearray(data)) == bulk_digest(memoryview(data)) == blake3(data)
