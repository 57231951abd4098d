"""Encodes and decodes messages, and checks every limit before it builds anything.

A frame is a 4-byte little-endian header length, the header (a msgpack array: version, type, fields), and
the payload of bulk messages as raw bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any, get_args

import msgpack

from protocol.errors import RemoteProtocolError
from protocol.wire.limits import (
    FRAMES,
    MAX_BITMAP_BYTES,
    MAX_EVIDENCE_BYTES,
    MAX_FRAME_BYTES,
    MAX_HEADER_BYTES,
    MAX_PARAMETERS_CHARS,
    MAX_PAYLOAD_BYTES,
    MAX_PIECES,
    MAX_PRODUCT_BYTES,
)
from protocol.wire.messages import Message
from protocol.wire.records import PAYLOAD, header_fields, plain, read_fields, wrong

_RETIRED = range(28, 34)
"""The numbers of messages that earlier releases had: they stay unused."""
KINDS: dict[int, type] = dict(
    zip((number for number in count() if number not in _RETIRED), get_args(Message), strict=False)
)
"""The kinds of messages by their numbers."""
_NUMBERS = {kind: number for number, kind in KINDS.items()}


@dataclass(frozen=True, slots=True)
class Frame:
    """An encoded message: `head` (length and header) and `payload`, kept apart so as not to copy bulk."""

    head: bytes
    payload: bytes | memoryview

    def __len__(self) -> int:
        return len(self.head) + len(self.payload)

    def join(self) -> bytes:
        """The frame as one byte string."""
        return self.head + bytes(self.payload) if len(self.payload) else self.head


def encode(message: Message) -> Frame:
    """The frame of a message."""
    header = _header(message)
    return Frame(len(header).to_bytes(4, "little") + header, getattr(message, PAYLOAD, b""))


def _header(message: Message) -> bytes:
    return bytes(msgpack.packb([FRAMES, _NUMBERS[type(message)], *plain(message)]))


def frame_bytes(message: Message) -> int:
    """The length in bytes of a message's frame."""
    return 4 + len(_header(message)) + len(getattr(message, PAYLOAD, b""))


def fits(message: Message) -> bool:
    """Whether a message that is not bulk is short enough for one frame."""
    return len(_header(message)) <= MAX_HEADER_BYTES


def payload_start(head: bytes | memoryview) -> int:
    """The offset of the payload in a frame that begins with these 4 bytes."""
    return 4 + int.from_bytes(head[:4], "little")


def decode(frame: bytes | memoryview) -> Message:
    """The message of a frame. Raises RemoteProtocolError, and builds nothing, if a limit or type is violated.

    A large payload is a view of the frame, which must not change from here on; a small one is a copy, so that
    it does not keep a large header in memory.
    """
    view = memoryview(frame).toreadonly()
    if not 4 <= len(view) <= MAX_FRAME_BYTES:
        raise RemoteProtocolError(f"a frame of {len(view)} bytes; 4 to {MAX_FRAME_BYTES} are allowed")
    end = payload_start(view)
    if end > min(len(view), 4 + MAX_HEADER_BYTES):
        raise RemoteProtocolError("a frame whose header is cut off or too long")
    header = _unpack(bytes(view[4:end]))
    if type(header) is not list or len(header) < 2 or type(header[0]) is not int or header[0] != FRAMES:
        raise RemoteProtocolError(f"not a frame of version {FRAMES}")
    if type(header[1]) is not int or header[1] not in KINDS:
        raise wrong("the number of a message", header[1])
    return _build(KINDS[header[1]], header[2:], view[end:])


def read_record(kind: type, packed: bytes, signature: bytes) -> Any:
    """A record from its fields, packed as they are signed. Raises RemoteProtocolError beyond a limit."""
    values = _unpack(packed)
    if type(values) is not list or len(values) != len(header_fields(kind)):
        raise wrong(f"the fields of {kind.__name__}", values)
    values[header_fields(kind).index("signature")] = signature
    return kind(*read_fields(kind, values))


def _unpack(header: bytes) -> object:
    try:
        return msgpack.unpackb(
            header,
            max_str_len=MAX_PARAMETERS_CHARS * 4,
            max_bin_len=max(MAX_BITMAP_BYTES, MAX_PRODUCT_BYTES, MAX_EVIDENCE_BYTES),
            max_array_len=MAX_PIECES,
            max_map_len=0,
            max_ext_len=0,
        )
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        raise RemoteProtocolError("a header that is not msgpack within the limits") from error


def _build(kind: Any, values: list[Any], payload: memoryview) -> Message:
    """Build the message; the payload of bulk messages is their last field."""
    fields_read = read_fields(kind, values)
    if PAYLOAD not in kind.__dataclass_fields__:
        if len(payload):
            raise RemoteProtocolError(f"{kind.__name__} with {len(payload)} bytes after its header")
        return kind(*fields_read)  # type: ignore[no-any-return]
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise RemoteProtocolError(f"a payload of {len(payload)} bytes; {MAX_PAYLOAD_BYTES} are allowed")
    carried = payload if len(payload) > MAX_HEADER_BYTES else bytes(payload)
    return kind(*fields_read, carried)  # type: ignore[no-any-return]
