"""Members of a relay that send and receive as relayed streams do: windows of 1 MiB, credit at their steps."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp

from benchmarks.relay.process import RelayProcess
from protocol.crypto.node_key import NodeKey
from protocol.relay.admission import (
    SUBPROTOCOL,
    Admit,
    CarrierKind,
    Credentials,
    Welcome,
    read_answer,
    sign_members,
    write_admission,
)
from protocol.relay.frames import MAX_FRAME_BYTES, Frame, FrameKind, read_frame
from protocol.relay.stream import BOUNDS
from protocol.wire import handshake
from protocol.wire.ids import Key

_SWARM = bytes(32)


class Member:
    """One carrier of a member."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse, key: Key) -> None:
        self._ws = ws
        self.key = key
        self.frames_sent = 0
        self._received: Counter[Key] = Counter()
        self._credited: Counter[Key] = Counter()
        self._consumed: Counter[Key] = Counter()
        """What each addressee has said that it consumed."""
        self._news = asyncio.Event()

    async def read(self) -> None:
        """Reads until the carrier ends, and gives credit."""
        async for message in self._ws:
            frame = read_frame(memoryview(message.data))
            if frame.kind is FrameKind.DATA:
                await self._take(frame)
            elif frame.kind is FrameKind.CREDIT:
                self._consumed[frame.key] = max(self._consumed[frame.key], frame.offset)
                self._news.set()

    async def _take(self, frame: Frame) -> None:
        self._received[frame.key] += len(frame.data)
        if self._received[frame.key] - self._credited[frame.key] >= BOUNDS.credit:
            self._credited[frame.key] = self._received[frame.key]
            await self.send(Frame(frame.key, FrameKind.CREDIT, 1, self._credited[frame.key]))

    async def send(self, frame: Frame) -> None:
        """Sends a frame."""
        self.frames_sent += 1
        await self._ws.send_bytes(b"".join(frame.parts))

    async def stream(self, to: Key, piece: memoryview, count: int, window: int = BOUNDS.window) -> None:
        """Sends a piece `count` times, never more than `window` bytes ahead of the reader; waits for the end.

        The last step may be unread: the reader gives no credit for less.
        """
        offset = self._consumed[to]
        end = offset + count * len(piece)
        while offset < end:
            await self._until(to, offset + len(piece) - window)
            await self.send(Frame(to, FrameKind.DATA, 1, offset, piece))
            offset += len(piece)
        await self._until(to, end - BOUNDS.credit + 1)

    async def push(self, to: Key, piece: memoryview, count: int) -> None:
        """Sends a piece `count` times, whatever the reader does."""
        for number in range(count):
            await self.send(Frame(to, FrameKind.DATA, 1, number * len(piece), piece))

    async def _until(self, to: Key, consumed: int) -> None:
        while self._consumed[to] < consumed:
            self._news.clear()
            await self._news.wait()


@asynccontextmanager
async def members(relay: RelayProcess, count: int, stuck: Sequence[int] = ()) -> AsyncIterator[list[Member]]:
    """Yields so many members of one swarm; those whose numbers are in `stuck` never read."""
    keys = [NodeKey(number.to_bytes(32, "big")) for number in range(1, count + 1)]
    signed = sign_members(keys[0], _SWARM, tuple(key.public for key in keys))
    asked = Admit(CarrierKind.BULK, 1, Credentials(signed, relay.licences.give(keys[0].public)))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, ssl=False)) as client:
        made = [Member(await _carrier(client, relay, key, asked), key.public) for key in keys]
        reading = [asyncio.create_task(made[each].read()) for each in range(count) if each not in stuck]
        try:
            yield made
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)


async def _carrier(
    client: aiohttp.ClientSession, relay: RelayProcess, key: NodeKey, asked: Admit
) -> aiohttp.ClientWebSocketResponse:
    """Opens an admitted carrier."""
    ws = await client.ws_connect(
        f"{relay.url}/v1/relay", protocols=(SUBPROTOCOL,), max_msg_size=MAX_FRAME_BYTES + 1
    )
    mine = os.urandom(handshake.NONCE_BYTES)
    await ws.send_bytes(handshake.knock(mine))
    challenged = handshake.read_challenge(await ws.receive_bytes(), mine, handshake.RELAY)
    await ws.send_bytes(handshake.proof(key, mine, challenged, handshake.RELAY))
    await ws.send_bytes(write_admission(asked))
    answer = read_answer(await ws.receive_bytes())
    if not isinstance(answer, Welcome):
        raise ConnectionError(answer.why)
    return ws
