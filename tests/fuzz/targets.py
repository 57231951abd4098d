"""What is fuzzed: bytes in, and nothing but RemoteProtocolError out."""

import random
from collections.abc import Callable

from protocol.errors import RemoteProtocolError
from protocol.wire import codec
from tests.simulation.mutations import LAYOUTS, feed, real_messages


class Decided(random.Random):
    """A generator whose every choice comes from given bytes; zeros when they are used up."""

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
    """A session of real and mutated messages: only RemoteProtocolError, no tick that fails."""
    rng = Decided(data)
    feed(rng.choice(LAYOUTS), 40, rng)


def fuzz_codec(data: bytes) -> None:
    """Any bytes are a message, which has these bytes again, or are refused."""
    try:
        message = codec.decode(data)
    except RemoteProtocolError:
        return
    assert codec.decode(codec.encode(message).join()) == message


TARGETS: dict[str, Callable[[bytes], None]] = {"codec": fuzz_codec, "machine": fuzz_machine}


def prepare() -> None:
    """The real messages that are mutated, made before the clock runs."""
    for layout in LAYOUTS:
        real_messages(layout)
