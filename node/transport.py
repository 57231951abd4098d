"""Frames between nodes over HTTP: small ones on one websocket a direction, bulk as POST bodies.

A link to an endpoint is opened with the first message to it. When it breaks and can not be opened again
at once, `unreachable` is called: the end of a process is noticed as soon as the system closes its sockets.
Every wait has an end, every queue a bound. What comes in is taken by `node.server`.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator

from aiohttp import (
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    ClientWebSocketResponse,
    ServerDisconnectedError,
    TCPConnector,
    web,
)

from node.link import AHEAD, CONNECT_CAP_S, Link
from node.server import HEARTBEAT_S, MAX_CONTROL_BYTES, Receive, Server, log
from node.tls import Tls, WrongPeer, not_met
from node.traffic import Counts, phase_of
from protocol import codec
from protocol.actions import Send
from protocol.deadlines import Pace
from protocol.messages import Message

CONNECT_FLOOR_S = 1.0
ENCODED = 2

Unreachable = Callable[[str, str], Awaitable[None]]
Reconnected = Callable[[str], Awaitable[None]]


class Transport:
    """A node's server and its links. `receive` may raise RemoteProtocolError: the frame is dropped."""

    def __init__(
        self,
        receive: Receive,
        unreachable: Unreachable,
        reconnected: Reconnected,
        heavy: bool,
        tls: Tls | None,
    ) -> None:
        """`heavy`: whether building a message takes more than a few milliseconds, and so a thread.

        `tls`: None: without, whatever the addresses.
        """
        self._heavy = heavy
        self.tls = tls
        self._unreachable = unreachable
        self._reconnected = reconnected
        self._links: dict[str, Link] = {}
        self._connect_pace = Pace(CONNECT_FLOOR_S, CONNECT_CAP_S)
        self._client: ClientSession | None = None
        self._encoded: deque[tuple[Message, codec.Frame]] = deque(maxlen=ENCODED)
        self.counts = Counts()
        self._server = Server(receive, self.counts, tls)

    async def start(self, listener: socket.socket, routes: Iterable[web.RouteDef]) -> None:
        """Serve on an already bound socket. `routes`: what is answered besides frames (node.web)."""
        await self._server.start(listener, routes)
        timeout = ClientTimeout(total=None, sock_connect=CONNECT_CAP_S)
        self._client = ClientSession(connector=TCPConnector(limit=0), timeout=timeout)

    async def close(self) -> None:
        """Let what is queued go out for a moment, then close every link and the server."""
        await asyncio.gather(*(link.close() for link in list(self._links.values())))
        await self._server.close_links()
        if self._client is not None:
            await self._client.close()
        await self._server.close()

    def send(
        self, endpoint: str, messages: Iterable[Message], end: asyncio.Future[bool] | None = None
    ) -> None:
        """Queue messages for an endpoint; if the queue is full they are dropped and counted.

        `end`: is told whether they went, when they have gone or never will.
        """
        link = self._links.get(endpoint)
        if link is None:
            link = self._links[endpoint] = Link(self, endpoint)
        if not link.put(messages, end):
            log.debug("dropped", why="queue to a peer is full")
            self.counts.drop("queue to a peer is full")
            if end is not None:
                end.set_result(False)

    async def hand(self, endpoint: str, message: Message) -> bool:
        """Send a large message, and wait until it has gone or never will; whether it went."""
        end: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.send(endpoint, [message], end)
        return await end

    def encoded(self, message: Message) -> codec.Frame:
        """Its frame. What goes to all is the same message every time, and encoded once; bulk is not kept."""
        for known, frame in self._encoded:
            if known is message:
                return frame
        made = codec.encode(message)
        if not len(made.payload):
            self._encoded.append((message, made))
        return made

    def sent(self, message: Message, count: int) -> None:
        """Count what went out."""
        self.counts.sent[phase_of(message)] += count

    async def connect(self, endpoint: str) -> ClientWebSocketResponse:
        """A websocket to an endpoint, within the time that connecting was seen to take."""
        if self._client is None:
            raise ConnectionError("the transport is closed")
        begun = asyncio.get_running_loop().time()
        context = self.tls.dialling(endpoint) if self.tls else None
        url = f"{'http' if context is None else 'https'}://{endpoint}/v1/link"
        try:
            async with asyncio.timeout(self._connect_pace.allowed_s):
                ws = await self._client.ws_connect(
                    url, max_msg_size=MAX_CONTROL_BYTES, heartbeat=HEARTBEAT_S, ssl=context or False
                )
        except (ServerDisconnectedError, ClientSSLError) as error:
            raise ConnectionError(not_met(under_tls=context is not None)) from error
        if self.tls is not None:
            await self._checked(ws, endpoint, self.tls)
        self._connect_pace.observe(asyncio.get_running_loop().time() - begun)
        return ws

    async def _checked(self, ws: ClientWebSocketResponse, endpoint: str, tls: Tls) -> None:
        """WrongPeer, and nothing said, if it is not who should be there."""
        try:
            tls.check(endpoint, ws.get_extra_info("ssl_object"))
        except WrongPeer:
            await ws.close()
            raise

    async def built(self, messages: Iterator[Message]) -> list[Message]:
        """The next messages, built off the event loop if that takes long; fewer than AHEAD at the end.

        Two at a time: the way to a thread is dear, and most that have bulk to say say one thing.
        """
        if self._heavy:
            return await asyncio.to_thread(_several, messages)
        return _several(messages)

    async def lost(self, endpoint: str, why: str) -> None:
        """A link is down and could not be opened again."""
        await self._unreachable(endpoint, why)

    async def reconnected(self, endpoint: str) -> None:
        """A link broke and was opened again: who answers there may have started anew."""
        await self._reconnected(endpoint)

    def forget(self, endpoint: str, link: Link) -> None:
        """The next message to this endpoint opens a new link."""
        if self._links.get(endpoint) is link:
            del self._links[endpoint]


def queued(send: Send) -> Iterable[Message]:
    """As `Transport.send` tells it: a tuple is small, a list is bulk that is there, all else is built."""
    if not send.bulk:
        return tuple(send.messages)
    return list(send.messages) if isinstance(send.messages, tuple) else iter(send.messages)


def _several(messages: Iterator[Message]) -> list[Message]:
    return list(itertools.islice(messages, AHEAD))
