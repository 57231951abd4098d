"""Frames between nodes over HTTP: small ones on one websocket a direction, bulk as POST bodies.

A link to an endpoint is opened with the first message to it. When it breaks and can not be opened again
at once, `unreachable` is called: the end of a process is noticed as soon as the system closes its sockets.
Nothing is read beyond the limits of the codec, every wait has an end, every queue a bound.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from aiohttp import (
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    ClientWebSocketResponse,
    ServerDisconnectedError,
    TCPConnector,
    WSMsgType,
    web,
)
from aiohttp.abc import AbstractAccessLogger

from node.link import AHEAD, CONNECT_CAP_S, SMALL_BYTES, TOO_EARLY, Link
from node.logs import Log
from node.tls import Tls, WrongPeer, not_met
from protocol import codec
from protocol.deadlines import Pace
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.masked_messages import (
    Ack,
    Check,
    Dispute,
    Join,
    JoinCertificate,
    Joined,
    Masked,
    Propose,
    Release,
    Total,
    TotalPiece,
    ViewChange,
)
from protocol.messages import Message, Share, Sum

MAX_CONTROL_BYTES = 4 + codec.MAX_HEADER_BYTES + SMALL_BYTES
MAX_LINKS_IN = 1024
CONNECT_FLOOR_S = 1.0
HEARTBEAT_S = 10.0
ENCODED = 2
_WORD_BYTES = 4

Receive = Callable[[Message], Awaitable[None]]
Unreachable = Callable[[str, str], Awaitable[None]]
Reconnected = Callable[[str], Awaitable[None]]

log = Log("transport")  # what strangers send is counted, and logged only at the level debug
http_log = logging.getLogger("murmuration.http")


def phase_of(message: Message) -> str:
    """The phase whose bytes a message counts for."""
    match message:
        case Share() | Join() | Joined() | JoinCertificate():
            return "shares"
        case Sum() | Masked() | Total() | Check() | Dispute() | Ack() | Release():
            return "sums"
        case ViewChange() | Propose() | TotalPiece():
            return "sums"
        case _:
            return "group"


@dataclass
class Counts:
    """Bytes by phase since the start, and what was dropped, by why."""

    sent: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)


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
        self._receive = receive
        self._unreachable = unreachable
        self._reconnected = reconnected
        self._links: dict[str, Link] = {}
        self._incoming: set[web.WebSocketResponse] = set()
        self._connect_pace = Pace(CONNECT_FLOOR_S, CONNECT_CAP_S)
        self._client: ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self._listener: socket.socket | None = None
        self._encoded: deque[tuple[Message, codec.Frame]] = deque(maxlen=ENCODED)
        self.counts = Counts()

    async def start(self, listener: socket.socket, routes: Iterable[web.RouteDef]) -> None:
        """Serve on an already bound socket. `routes`: what is answered besides frames (node.web)."""
        app = web.Application(client_max_size=codec.MAX_FRAME_BYTES)
        app.add_routes([web.get("/v1/link", self._link), web.post("/v1/bulk", self._bulk)])
        app.add_routes(routes)
        counts = self.counts

        class Refusals(AbstractAccessLogger):
            """Counts requests that never reached a handler: garbage, wrong paths, bodies too large."""

            def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
                """One answered request."""
                if 400 <= response.status < 500 and not request.path.startswith("/v1/bulk"):
                    counts.dropped["not a request of this protocol"] += 1

        runner = web.AppRunner(
            app,
            access_log_class=Refusals,
            access_log=http_log,
            logger=http_log,
            handle_signals=False,
            shutdown_timeout=1.0,
        )
        await runner.setup()
        await web.SockSite(runner, listener, ssl_context=self.tls.listening if self.tls else None).start()
        self._runner = runner
        self._listener = listener
        timeout = ClientTimeout(total=None, sock_connect=CONNECT_CAP_S)
        self._client = ClientSession(connector=TCPConnector(limit=0), timeout=timeout)

    async def close(self) -> None:
        """Let what is queued go out for a moment, then close every link and the server."""
        await asyncio.gather(*(link.close() for link in list(self._links.values())))
        for ws in list(self._incoming):
            with suppress(ConnectionError, asyncio.TimeoutError, RuntimeError):
                await asyncio.wait_for(ws.close(), 1.0)
        if self._client is not None:
            await self._client.close()
        await self._accept_no_more()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _accept_no_more(self) -> None:
        """Accept nobody else, and let the server take over whom it has accepted.

        That is in the loop's next turn, and a server that closes before it leaves such a connection open
        (https://github.com/python/cpython/issues/109564).
        """
        if self._listener is not None and self._listener.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._listener)
            await asyncio.sleep(0)

    # -- in ----------------------------------------------------------------------------------------

    async def _link(self, request: web.Request) -> web.StreamResponse:
        if len(self._incoming) >= MAX_LINKS_IN:
            self._drop("more links than are allowed")
            raise web.HTTPServiceUnavailable
        ws = web.WebSocketResponse(max_msg_size=MAX_CONTROL_BYTES, heartbeat=HEARTBEAT_S, compress=False)
        await ws.prepare(request)
        self._incoming.add(ws)
        try:
            async for frame in ws:
                if frame.type is WSMsgType.BINARY:
                    with suppress(RemoteProtocolError):
                        await self._take(frame.data)
                elif frame.type is WSMsgType.ERROR:
                    self._drop("a frame over the limit, or no frame")
                else:
                    self._drop("not a binary frame")
        finally:
            self._incoming.discard(ws)
        return ws

    async def _bulk(self, request: web.Request) -> web.StreamResponse:
        length = request.content_length
        if length is None or length > codec.MAX_FRAME_BYTES:
            self._drop("a body without a length, or over the limit")
            raise web.HTTPRequestEntityTooLarge(codec.MAX_FRAME_BYTES, length or 0)
        try:
            await self._take(await _body(request, length))
        except TooEarly:
            return web.Response(status=TOO_EARLY)
        except RemoteProtocolError:
            return web.Response(status=400)
        return web.Response(status=204)

    async def _take(self, frame: bytes | memoryview) -> None:
        """Decode and hand on; what breaks a rule is counted and raised."""
        try:
            message = codec.decode(frame)
            self.counts.received[phase_of(message)] += len(frame)
            await self._receive(message)
        except TooEarly:
            raise
        except RemoteProtocolError as error:
            self._drop(str(error))
            raise

    def _drop(self, why: str) -> None:
        log.debug("dropped", why=why)
        self.counts.dropped[why if len(self.counts.dropped) < 1000 else "others"] += 1

    # -- out ---------------------------------------------------------------------------------------

    def send(self, endpoint: str, messages: Iterable[Message]) -> None:
        """Queue messages for an endpoint; if the queue is full they are dropped and counted."""
        link = self._links.get(endpoint)
        if link is None:
            link = self._links[endpoint] = Link(self, endpoint)
        if not link.put(messages):
            self._drop("queue to a peer is full")

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


async def _body(request: web.Request, length: int) -> memoryview:
    """The whole body, in a buffer that nothing else holds, with its payload at a word's boundary."""
    piece = await request.content.readexactly(min(_WORD_BYTES, length)) if length else b""
    lead = -codec.payload_start(piece) % _WORD_BYTES
    body, end = bytearray(lead + length), lead
    while piece:
        body[end : end + len(piece)] = piece
        end += len(piece)
        piece = await request.content.readany()
    return memoryview(body)[lead:]


def _several(messages: Iterator[Message]) -> list[Message]:
    return list(itertools.islice(messages, AHEAD))
