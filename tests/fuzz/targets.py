"""The fuzz targets: any bytes may raise nothing but RemoteProtocolError."""

import random
from collections.abc import Callable
from contextlib import suppress

from protocol.errors import RemoteProtocolError
from protocol.relay.admission import read_admit, read_answer, write_admission
from protocol.relay.room_messages import (
    read_from_inviter,
    read_to_inviter,
    read_to_joiner,
    write_room_message,
)
from protocol.wire import codec
from tests.simulation.mutations import LAYOUTS, feed, real_messages


class Decided(random.Random):
    """A random generator that takes every choice from given bytes; zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._data = data
        self._place = 0

    def getrandbits(self, k: int, /) -> int:
        count = -(-k // 8)
        taken = self._data[self._place : self._place + count].ljust(count, b"\0")
        self._place += count
        return int.from_bytes(taken, "little") >> (8 * count - k)

    def random(self) -> float:
        return self.getrandbits(32) / 2**32


def fuzz_machine(data: bytes) -> None:
    """Runs a session of real and mutated messages: only RemoteProtocolError, and no tick fails."""
    rng = Decided(data)
    feed(rng.choice(LAYOUTS), 40, rng)


def fuzz_codec(data: bytes) -> None:
    """Decodes any bytes to a message that encodes to the same bytes, or refuses them."""
    try:
        message = codec.decode(data)
    except RemoteProtocolError:
        return
    assert codec.decode(codec.encode(message).join()) == message


def fuzz_relay(data: bytes) -> None:
    """Reads any bytes as what an inviter, a joiner, a member or a relay says, and writes what it read."""
    for read, write in (
        (read_admit, write_admission),
        (read_answer, write_admission),
        (read_from_inviter, write_room_message),
        (read_to_inviter, write_room_message),
        (read_to_joiner, write_room_message),
    ):
        with suppress(RemoteProtocolError):
            found = read(data)
            assert read(write(found)) == found


TARGETS: dict[str, Callable[[bytes], None]] = {
    "codec": fuzz_codec,
    "machine": fuzz_machine,
    "relay": fuzz_relay,
}


def prepare() -> None:
    """Makes the real messages to mutate, before the clock runs."""
    for layout in LAYOUTS:
        real_messages(layout)
