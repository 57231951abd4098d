"""The local end of a relayed stream: nothing that comes before its pair is there gets lost."""

from __future__ import annotations

import asyncio
from contextlib import closing

from node.net.relay.local_end import LocalEnd
from node.system.streams import KERNEL
from tests.patience import ENOUGH_S

NAME = (bytes(32), 7)


class Far:
    """The stream: what was consumed of it, and whether it was aborted."""

    def __init__(self) -> None:
        self.consumed = 0
        self.aborted = asyncio.Event()

    def room(self, stream) -> int:
        return 1 << 20

    def write(self, stream, data) -> None:
        """Nothing is written here."""

    def consume(self, stream, count) -> None:
        self.consumed += count

    def finish(self, stream) -> None:
        """The far end ends first here."""

    def abort(self, stream) -> None:
        self.aborted.set()


class Reader(asyncio.Protocol):
    """Reads until the end."""

    def __init__(self) -> None:
        self.data = b""
        self.ended = asyncio.Event()

    def data_received(self, data) -> None:
        self.data += data

    def eof_received(self) -> None:
        self.ended.set()

    def connection_lost(self, error) -> None:
        self.ended.set()


def local_end() -> tuple[LocalEnd, Far]:
    far = Far()
    local = LocalEnd(far)
    local.stream = NAME
    return local, far


async def read(local: LocalEnd, far: Far) -> bytes:
    pair = await KERNEL.pair(lambda: local, None)
    transport, reader = await pair.connect(Reader, None, "")
    with closing(transport):
        await asyncio.wait_for(reader.ended.wait(), ENOUGH_S)
    local.end(in_peace=True)
    await asyncio.wait_for(far.aborted.wait(), ENOUGH_S)  # the local end has lost its pair
    return reader.data


async def test_bytes_and_the_end_that_come_before_the_pair_are_read_in_order():
    local, far = local_end()
    for piece in (b"a hello ", b"that came ", b"early"):
        local.take(memoryview(piece))
    assert far.consumed == 0
    local.end_reading()
    assert await read(local, far) == b"a hello that came early"
    assert far.consumed == 23


async def test_a_stream_that_broke_before_the_pair_is_there_ends_it():
    local, far = local_end()
    local.end(in_peace=False)
    assert await read(local, far) == b""
