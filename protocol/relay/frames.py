"""Frames: what the ends of a relayed stream say to each other, and what the relay says to them.

    key 32 | kind 1 | stream 8 | offset 8 | data

A member writes the key of the addressee; the relay replaces it by the key of the sender and changes nothing
else. A frame that the relay says itself has the key that it is about. Each frame is one message of a
websocket. Integers are big-endian. The relay reads the head, never the data.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from protocol.crypto.node_key import KEY_BYTES
from protocol.errors import RemoteProtocolError
from protocol.wire.ids import Key

_HEAD = struct.Struct(f">{KEY_BYTES}sBQQ")
HEAD_BYTES = _HEAD.size
PIECE_BYTES = 60 * 1024
"""The most data of a frame."""
MAX_FRAME_BYTES = HEAD_BYTES + PIECE_BYTES
_NOTHING = memoryview(b"")


class FrameKind(IntEnum):
    """What a frame says. `offset` counts the bytes of the stream in one direction."""

    OPEN = 0
    """An end opens a stream; it repeats this until the first answer."""
    DATA = 1
    """`data` begins at `offset`."""
    CREDIT = 2
    """All bytes before `offset` were consumed."""
    AT = 3
    """All bytes before `offset` have arrived; the sender goes back there."""
    PROBE = 4
    """All bytes before `offset` were sent; the answer is AT and CREDIT."""
    FIN = 5
    """The sender writes nothing at or after `offset`."""
    RESET = 6
    """The stream is over at once, for both ends."""
    AWAY = 16
    """From the relay: `key` has no carrier here. `offset` is an `Absence`."""
    HERE = 17
    """From the relay: `key` has a carrier again. `stream` is its process start."""
    FULL = 18
    """From the relay: frames for `key` were dropped, for too many wait; the sender goes back."""
    LIMIT = 19
    """From the relay: it carries no more. `data` is a sentence."""


FROM_RELAY = frozenset((FrameKind.AWAY, FrameKind.HERE, FrameKind.FULL, FrameKind.LIMIT))
"""What only the relay says. No member can say it: the relay drops such a frame."""


class Absence(IntEnum):
    """Why a key has no carrier, in the offset of AWAY."""

    SILENT = 0
    """Its carrier broke or fell silent: its process may live."""
    CLOSED = 1
    """Its carrier was closed: its process has ended."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame. `key`: the addressee's where it is sent, the sender's where it arrives."""

    key: Key
    kind: FrameKind
    stream: int = 0
    offset: int = 0
    data: memoryview = _NOTHING

    @property
    def head(self) -> bytes:
        """The frame without its data."""
        return _HEAD.pack(self.key, self.kind, self.stream, self.offset)

    @property
    def parts(self) -> tuple[bytes, memoryview]:
        """The bytes of the frame, head and data apart, so that nobody copies the data."""
        return self.head, self.data


def read_frame(message: memoryview) -> Frame:
    """The frame in a websocket's message, whose data it shares. Raises RemoteProtocolError."""
    if not HEAD_BYTES <= len(message) <= MAX_FRAME_BYTES:
        raise RemoteProtocolError(f"{len(message)} bytes that are no frame of a relayed stream")
    key, kind, stream, offset = _HEAD.unpack_from(message)
    if kind not in _KINDS:
        raise RemoteProtocolError(f"a frame of the unknown kind {kind}")
    return Frame(key, FrameKind(kind), stream, offset, message[HEAD_BYTES:])


_KINDS = frozenset(FrameKind)
