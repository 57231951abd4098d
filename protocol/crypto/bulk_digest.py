"""The digests of bulk: of chunks and pieces of vectors, as heads, totals and sums name them.

BLAKE3 (O'Connor, Aumasson, Neves and Wilcox-O'Hearn 2020), 32 bytes: as hard to collide as SHA-256, at a
fifth of its cost for a megabyte. Everything small, and what names a base, stays SHA-256.
"""

from __future__ import annotations

from blake3 import blake3


def bulk_digest(payload: bytes | bytearray | memoryview) -> bytes:
    """32 bytes."""
    return blake3(payload).digest()
