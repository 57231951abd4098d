"""BLAKE3's hash once more, slowly: plain Python ints, from the paper's sections 2.2 to 2.5."""

import struct

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
BLOCK, CHUNK, ROUNDS = 64, 1024, 7
MASK = 2**32 - 1


def blake3(data: bytes) -> bytes:
    """32 bytes."""
    return _node(data, 0, ROOT)


def _node(data: bytes, first_chunk: int, root: int) -> bytes:
    """The chaining value of a subtree: a chunk, or a parent whose left side is the largest full tree."""
    if len(data) <= CHUNK:
        return _chunk(data, first_chunk, root)
    chunks = -(-len(data) // CHUNK)
    left = 1 << (chunks - 1).bit_length() - 1
    one = _node(data[: left * CHUNK], first_chunk, 0)
    two = _node(data[left * CHUNK :], first_chunk + left, 0)
    return _compressed(IV, one + two, 0, BLOCK, PARENT | root)


def _chunk(data: bytes, number: int, root: int) -> bytes:
    blocks = [data[first : first + BLOCK] for first in range(0, len(data), BLOCK)] or [b""]
    value: tuple[int, ...] = IV
    for place, block in enumerate(blocks):
        last = place == len(blocks) - 1
        flags = CHUNK_START * (place == 0) | (CHUNK_END | root) * last
        value = struct.unpack("<8I", _compressed(value, block.ljust(BLOCK, b"\0"), number, len(block), flags))
    return struct.pack("<8I", *value)


def _compressed(value: tuple[int, ...], block: bytes, counter: int, length: int, flags: int) -> bytes:
    state = [*value, *IV[:4], counter & MASK, counter >> 32, length, flags]
    words = list(struct.unpack("<16I", block))
    for _ in range(ROUNDS):
        for place, (a, b, c, d) in enumerate(COLUMNS + DIAGONALS):
            _mix(state, a, b, c, d, words[2 * place], words[2 * place + 1])
        words = [words[place] for place in PERMUTATION]
    return struct.pack("<8I", *(state[place] ^ state[place + 8] for place in range(8)))


def _mix(state: list[int], a: int, b: int, c: int, d: int, one: int, two: int) -> None:
    for word, first, second in ((one, 16, 12), (two, 8, 7)):
        state[a] = state[a] + state[b] + word & MASK
        state[d] = _turned(state[d] ^ state[a], first)
        state[c] = state[c] + state[d] & MASK
        state[b] = _turned(state[b] ^ state[c], second)


def _turned(word: int, places: int) -> int:
    return (word >> places | word << 32 - places) & MASK
