"""The talk about rooms: records as they are written and read by the one end that may hear them."""

from __future__ import annotations

from dataclasses import replace

import msgpack
import pytest

from protocol.errors import RemoteProtocolError
from protocol.relay.admission import Refused
from protocol.relay.room_messages import (
    MAX_ROOM_MESSAGE_BYTES,
    MAX_ROOMS,
    MAX_SAID_BYTES,
    Bar,
    Barred,
    CloseRoom,
    Dismiss,
    Entered,
    Knocked,
    Left,
    OpenRooms,
    Proved,
    Rooms,
    Said,
    WordShare,
    is_room,
    read_from_inviter,
    read_to_inviter,
    read_to_joiner,
    write_room_message,
)

SAID = Said("00420", 7, bytes(MAX_SAID_BYTES))
FROM_INVITER = [
    WordShare(bytes(16), bytes(32)),
    OpenRooms(bytes(64), b"", ("00420",) * MAX_ROOMS, MAX_ROOMS),
    SAID,
    Proved("00420", 7),
    Dismiss("00420", 7),
    CloseRoom("00420"),
]
TO_INVITER = [
    WordShare(bytes(16), bytes(32)),
    Rooms(bytes(64), ("00420", "99999"), bytes(64)),
    Refused("no", True),
    Knocked("00420", 7),
    SAID,
    Left("00420", 7),
]
TO_JOINER = [Entered(), *map(Barred, Bar)]


@pytest.mark.parametrize(
    ("read", "records"),
    [(read_from_inviter, FROM_INVITER), (read_to_inviter, TO_INVITER), (read_to_joiner, TO_JOINER)],
)
def test_each_end_reads_what_may_be_said_to_it_and_nothing_else(read, records):
    for record in {*FROM_INVITER, *TO_INVITER, *TO_JOINER}:
        packed = write_room_message(record)
        assert len(packed) <= MAX_ROOM_MESSAGE_BYTES
        if record in records:
            assert read(packed) == record
        else:
            with pytest.raises(RemoteProtocolError):
                read(packed)


@pytest.mark.parametrize("room", ["0042", "004200", "0042x", "٠٠٤٢٠", 42, b"00420"])
def test_a_room_is_five_digits(room):
    with pytest.raises(RemoteProtocolError):
        read_to_inviter(write_room_message(replace(SAID, room=room, data=b"")))
    assert not is_room(str(room))
    assert is_room("00420")


@pytest.mark.parametrize("bar", [4, -1, True, "0"])
def test_a_joiner_is_barred_for_a_known_reason(bar):
    with pytest.raises(RemoteProtocolError):
        read_to_joiner(msgpack.packb([1, 10, bar]))


def test_a_message_that_is_too_long_is_refused():
    with pytest.raises(RemoteProtocolError):
        read_to_inviter(write_room_message(replace(SAID, data=bytes(MAX_SAID_BYTES + 1))))
