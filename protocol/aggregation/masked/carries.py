"""The carries of a total as bytes: 2 bits each for up to 4 members, 3 for up to 16, 4 for up to 64.

The masks make words uniform, so n of them add up to n / 2 times 2^w with a standard deviation of
sqrt(n / 12) times 2^w (Irwin 1927, Hall 1927); the carry is the whole part of that factor. The lowest b bits
of a carry tell 2^b values apart: a window around n / 2. With 2^b >= 2 sqrt(n) the window holds all n values,
or reaches about 3.4 standard deviations to each side. The form of the carries of a chunk:

    b planes        plane k has bit k of every carry: eight in a byte, the first one in the lowest bit
    a list          of the carries beside the window, in order: 2^6 place + carry, 32 bits, little-endian

Members that lie about their masks can make such carries frequent. Where that form would not be shorter than a
byte for each carry, the carries are these bytes. So every sum has one form, of at most a byte a carry.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError

Carries = NDArray[np.uint8]

_CARRY_BITS = 6
"""Bits of the largest carry: a session has at most 64 members."""
_RARE = np.dtype("<u4")
_NONE = np.empty(0, dtype=np.int64)


def usual_bytes(words: int, members: int) -> int:
    """The bytes of the carries of `words` sums of up to `members` summands, if none of them is rare."""
    return min(words, _planes_bytes(words, _bits(members)))


def pack(carries: Carries, members: int) -> bytes:
    """The bytes of the (w,) carries of sums of up to `members` summands, each below `members`."""
    bits = _bits(members)
    is_rare = carries - np.uint8(_low(members, bits)) >= 1 << bits  # modulo 256
    rare = np.flatnonzero(is_rare) if is_rare.any() else _NONE  # asking first costs a tenth
    if _planes_bytes(len(carries), bits) + _RARE.itemsize * len(rare) >= len(carries):
        return carries.tobytes()
    planes = (np.packbits(carries & 1 << bit, bitorder="little") for bit in range(bits))
    places = (rare << _CARRY_BITS | carries[rare]).astype(_RARE)
    return b"".join((*(plane.tobytes() for plane in planes), places.tobytes()))


def unpack(payload: bytes | memoryview, words: int, members: int) -> Carries:
    """The (w,) uint8 carries. Raises RemoteProtocolError for bytes that `pack` never returns."""
    rare_bytes = len(payload) - _planes_bytes(words, _bits(members))
    is_short_form = rare_bytes >= 0 and not rare_bytes % _RARE.itemsize and len(payload) < words
    if len(payload) != words and not is_short_form:
        raise RemoteProtocolError(f"{len(payload)} bytes of carries for {words} sums of {members}")
    carries = read(payload, words, members)
    if (carries >= members).any() or pack(carries, members) != bytes(payload):
        raise RemoteProtocolError(f"bytes that are not the carries of {words} sums of {members}")
    return carries


def read(payload: bytes | memoryview, words: int, members: int) -> Carries:
    """The (w,) uint8 carries in bytes that `unpack` has taken before."""
    packed = np.frombuffer(payload, dtype=np.uint8)
    if len(packed) == words:
        return packed
    bits = _bits(members)
    low, end = np.uint8(_low(members, bits)), _planes_bytes(words, bits)
    carries = np.zeros(words, dtype=np.uint8)
    for bit, plane in enumerate(packed[:end].reshape(bits, -1)):
        ones = np.unpackbits(plane, count=words, bitorder="little")
        carries |= np.multiply(ones, 1 << bit, out=ones)  # eight times as fast as a shift of bytes
    carries -= low
    carries &= (1 << bits) - 1
    carries += low
    rare = packed[end:].copy().view(_RARE)
    places = rare >> _CARRY_BITS
    if (places < words).all():
        carries[places] = rare & (1 << _CARRY_BITS) - 1
    return carries


def _bits(members: int) -> int:
    """The least b with 2^b >= 2 sqrt(members)."""
    return ((members - 1).bit_length() + 3) // 2


def _low(members: int, bits: int) -> int:
    """The least carry of a window of 2^bits values around (members - 1) / 2."""
    return max(0, (members - (1 << bits) + 1) // 2)


def _planes_bytes(words: int, bits: int) -> int:
    return bits * -(-words // 8)
