"""Frames of relayed streams: their bytes, and what is refused."""

from __future__ import annotations

import pytest

from protocol.errors import RemoteProtocolError
from protocol.relay.frames import HEAD_BYTES, MAX_FRAME_BYTES, PIECE_BYTES, Frame, FrameKind, read_frame

KEY = bytes(range(32))


def test_the_bytes_of_a_frame():
    head, data = Frame(KEY, FrameKind.DATA, 5, 1 << 40, memoryview(b"abc")).parts
    assert head == KEY + b"\x01" + (5).to_bytes(8, "big") + (1 << 40).to_bytes(8, "big")
    assert bytes(data) == b"abc"
    assert len(head) == HEAD_BYTES == 49


@pytest.mark.parametrize("kind", FrameKind)
def test_a_frame_is_read_as_it_was_written(kind):
    frame = Frame(KEY, kind, (1 << 64) - 1, 7, memoryview(bytes(PIECE_BYTES)))
    message = b"".join(frame.parts)
    assert len(message) == MAX_FRAME_BYTES
    assert read_frame(memoryview(message)) == frame


@pytest.mark.parametrize(
    "message", [b"", bytes(HEAD_BYTES - 1), bytes(MAX_FRAME_BYTES + 1), KEY + b"\x07" + bytes(16)]
)
def test_what_is_no_frame_is_refused(message):
    with pytest.raises(RemoteProtocolError):
        read_frame(memoryview(message))
