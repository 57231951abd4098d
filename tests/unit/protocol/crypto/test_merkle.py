import hashlib

import pytest

from protocol.crypto import merkle

LEAVES = [bytes([number]) * 5 for number in range(9)]


def slow_root(leaves: list[bytes]) -> bytes:
    """RFC 9162, section 2.1.1, level by level: nodes without a neighbour move up unchanged."""
    level = [hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves]
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [
            hashlib.sha256(b"\x01" + b"".join(pair)).digest() if len(pair) == 2 else pair[0] for pair in pairs
        ]
    return level[0]


@pytest.mark.parametrize("count", range(1, 10))
def test_the_root_is_that_of_a_second_way_of_computing_it(count):
    assert merkle.root(LEAVES[:count]) == slow_root(LEAVES[:count])


@pytest.mark.parametrize("count", range(1, 10))
def test_a_proof_shows_its_leaf_at_its_place_and_nowhere_else(count):
    leaves, whole = LEAVES[:count], merkle.root(LEAVES[:count])
    for index, leaf in enumerate(leaves):
        proof = merkle.path(leaves, index)
        assert len(proof) <= (count - 1).bit_length()
        shown = [at for at in range(-1, count + 1) if merkle.proves(leaf, at, count, proof, whole)]
        assert shown == [index]


def test_a_changed_leaf_proof_or_root_shows_nothing():
    leaves, whole = LEAVES[:5], merkle.root(LEAVES[:5])
    proof = merkle.path(leaves, 2)
    for changed in (proof[:-1], (*proof, whole), proof[::-1], ()):
        assert not merkle.proves(leaves[2], 2, 5, changed, whole)
    assert not merkle.proves(leaves[3], 2, 5, proof, whole)
    assert not merkle.proves(leaves[2], 2, 5, proof, bytes(32))
    assert not merkle.proves(leaves[0], 0, 1, (whole,), merkle.root(leaves[:1]))
