"""Merkle trees: one digest for a list, and short proofs of an item's place (RFC 9162, section 2.1)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def root(leaves: Sequence[bytes]) -> bytes:
    """The digest of these leaves, at least one, in their order (section 2.1.1)."""
    if len(leaves) == 1:
        return _leaf(leaves[0])
    middle = _middle(len(leaves))
    return _node(root(leaves[:middle]), root(leaves[middle:]))


def path(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """The proof that leaf `index` is one of these leaves: a digest for each level, lowest first (2.1.3.1)."""
    if len(leaves) == 1:
        return ()
    middle = _middle(len(leaves))
    if index < middle:
        return (*path(leaves[:middle], index), root(leaves[middle:]))
    return (*path(leaves[middle:], index - middle), root(leaves[:middle]))


def proves(leaf: bytes, index: int, count: int, proof: Sequence[bytes], whole: bytes) -> bool:
    """Whether `proof` shows that `leaf` is number `index` of the `count` leaves whose root is `whole`."""
    return 0 <= index < count and _rebuilt(leaf, index, count, proof) == whole


def _rebuilt(leaf: bytes, index: int, count: int, proof: Sequence[bytes]) -> bytes | None:
    """The root that a leaf and its proof lead to; None if the proof has a wrong length."""
    if count == 1:
        return None if proof else _leaf(leaf)
    if not proof:
        return None
    middle, last = _middle(count), proof[-1]
    if index < middle:
        left = _rebuilt(leaf, index, middle, proof[:-1])
        return None if left is None else _node(left, last)
    right = _rebuilt(leaf, index - middle, count - middle, proof[:-1])
    return None if right is None else _node(last, right)


def _middle(count: int) -> int:
    """The largest power of two below `count`."""
    return 1 << (count - 1).bit_length() - 1


def _leaf(data: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + data).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
