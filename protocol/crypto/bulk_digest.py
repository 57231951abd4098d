"""The digest of bulk data: of chunks and pieces of vectors, as heads, totals and sums name them.

BLAKE3 (O'Connor, Aumasson, Neves and Wilcox-O'Hearn 2020), 32 bytes: as collision-resistant as SHA-256, at a
fifth of its cost for a megabyte. Small data and the names of bases use SHA-256.
"""

from __future__ import annotations

from blake3 import blake3


def bulk_digest(payload: bytes | bytearray | memoryview) -> bytes:
    """The BLAKE3 digest of the payload, 32 bytes."""
    return blake3(payload).digest()
