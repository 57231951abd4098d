"""HTTP requests of the doctor: only for what a node shows to everybody, and never more than is allowed."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from statistics import median

from aiohttp import ClientSession, StreamReader

from node.net.date_header import ahead_s
from node.net.outgoing.dialling import connect, meet
from node.net.tls import Dialling
from protocol.wire.handshake import NONCE_BYTES

HEALTH, READY = "/healthz", "/readyz"
LARGEST_PART = "/page/uPlot.iife.min.js"
"""The largest file of the page, some 50 kB: the largest answer that a node gives to everybody."""
_PARTS_AT_ONCE, _PARTS = 4, 16
_ROUND_TRIPS = 5
_MOST_BYTES = 64 * 1024
_MOST_PART_BYTES = 1024 * 1024
_PONG_BYTES = 125
"""The most that a control frame of a websocket holds."""
_UPLOADS = (128, 512, 2048, 8192)
"""How many pongs are sent, until they take _LONG_ENOUGH_S: 1 MB at most, as a handshake has 5 s."""
_LONG_ENOUGH_S = 0.5
ANSWER_S = 5.0
"""Time limit of one small answer."""
PARTS_S = 20.0
"""Time limit for all answers by which one throughput is measured."""


@dataclass(frozen=True)
class Answer:
    """An answer: its JSON object (empty for any other body), headers, and how far the clock is ahead (s)."""

    said: Mapping[str, object]
    headers: Mapping[str, str]
    ahead_s: float | None


@dataclass(frozen=True)
class Way:
    """Where requests go: a client, "http://host:port" or "https://...", and the context for TLS."""

    client: ClientSession
    url: str
    context: ssl.SSLContext | None

    async def get(self, path: str) -> Answer:
        """Returns the answer to a GET. Raises aiohttp's ClientError, OSError or TimeoutError."""
        async with (
            asyncio.timeout(ANSWER_S),
            self.client.get(self.url + path, ssl=self.context or False) as answer,
        ):
            body = await _at_most(answer.content, _MOST_BYTES)
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            said = None
        known = said if isinstance(said, dict) else {}
        return Answer(known, dict(answer.headers), ahead_s(answer.headers.get("Date")))

    async def round_trip_s(self) -> float:
        """Returns the median time of a short question on an open connection, in seconds."""
        loop = asyncio.get_running_loop()
        times = []
        for _ in range(_ROUND_TRIPS):
            begun = loop.time()
            await self.get(HEALTH)
            times.append(loop.time() - begun)
        return median(times)

    async def bytes_per_s(self) -> float | None:
        """Returns a lower bound on the rate of large answers: TCP has hardly sped up by their end.

        None if the far end does not give out its page under this name. Raises as `get` does.
        """
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(PARTS_S), asyncio.TaskGroup() as lanes:
            begun = loop.time()
            reading = [lanes.create_task(self._parts()) for _ in range(_PARTS_AT_ONCE)]
        counts = [lane.result() for lane in reading]
        return None if 0 in counts else sum(counts) / (loop.time() - begun)

    async def _parts(self) -> int:
        """Reads the largest part several times on one connection; returns its bytes, 0 if it is refused."""
        count = 0
        for _ in range(_PARTS // _PARTS_AT_ONCE):
            async with self.client.get(self.url + LARGEST_PART, ssl=self.context or False) as answer:
                if answer.status != 200:
                    return 0
                count += len(await _at_most(answer.content, _MOST_PART_BYTES))
        return count


async def upload_bytes_per_s(client: ClientSession, endpoint: str, tls: Dialling, within_s: float) -> float:
    """Returns a lower bound on the rate at which this machine's data arrives at a node.

    `within_s`: the time limit of each try. Raises as `connect` and `meet` do.
    """

    async def sent_s(count: int) -> float:
        async with asyncio.timeout(within_s):
            return await _sent_s(client, endpoint, tls, count)

    return await pong_rate(sent_s)


async def pong_rate(sent_s: Callable[[int], Awaitable[float]]) -> float:
    """Returns the rate of pongs, in bytes/s, by how long it takes to send some: the more, the faster they go.

    A try that takes long is made again: a pause of one of the machines makes one long, and hardly two.
    """
    rate = 0.0
    for count in _UPLOADS:
        took_s = await sent_s(count)
        if took_s >= _LONG_ENOUGH_S:
            took_s = min(took_s, await sent_s(count))
        rate = count * _PONG_BYTES / took_s
        if took_s >= _LONG_ENOUGH_S:
            break
    return rate


async def _sent_s(client: ClientSession, endpoint: str, tls: Dialling, count: int) -> float:
    """Returns how long it takes until so many pongs have arrived.

    A node takes no body from a stranger; but a websocket takes pongs that nobody asked for, and ignores
    them. The far end's challenge comes when it has read all of them.
    """
    loop = asyncio.get_running_loop()
    ws = await connect(client, endpoint, tls)
    begun = loop.time()
    try:
        for _ in range(count):
            await ws.pong(bytes(_PONG_BYTES))
        await meet(ws, endpoint, tls, os.urandom(NONCE_BYTES))
        return loop.time() - begun
    finally:
        await ws.close()


async def _at_most(content: StreamReader, count: int) -> bytes:
    """Returns the first `count` bytes of a body, or all of a shorter one."""
    body = bytearray()
    while len(body) < count and (piece := await content.read(count - len(body))):
        body += piece
    return bytes(body)
