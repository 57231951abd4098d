"""The incoming side of a node: frames on websockets and in POST bodies, and what is answered besides.

Nothing is read beyond the limits of the codec. What breaks a rule is counted and dropped.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from aiohttp import WSMsgType, web
from aiohttp.abc import AbstractAccessLogger

from node.logs import Log
from node.tls import Tls
from node.traffic import Counts, phase_of
from protocol import codec
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.messages import Message

SMALL_BYTES = 64 * 1024
"""Larger frames go as POST bodies, smaller ones on the websocket."""
MAX_CONTROL_BYTES = 4 + codec.MAX_HEADER_BYTES + SMALL_BYTES
MAX_LINKS_IN = 1024
HEARTBEAT_S = 10.0
TOO_EARLY = 425
_WORD_BYTES = 4

Receive = Callable[[Message], Awaitable[None]]

log = Log("transport")  # what strangers send is counted, and logged only at the level debug
http_log = logging.getLogger("murmuration.http")


class Server:
    """Who connects to a node. `receive` may raise RemoteProtocolError: the frame is dropped."""

    def __init__(self, receive: Receive, counts: Counts, tls: Tls | None) -> None:
        self._receive = receive
        self._counts = counts
        self._tls = tls
        self._incoming: set[web.WebSocketResponse] = set()
        self._runner: web.AppRunner | None = None
        self._listener: socket.socket | None = None

    async def start(self, listener: socket.socket, routes: Iterable[web.RouteDef]) -> None:
        """Serve on an already bound socket. `routes`: what is answered besides frames (node.web)."""
        app = web.Application(client_max_size=codec.MAX_FRAME_BYTES)
        app.add_routes([web.get("/v1/link", self._link), web.post("/v1/bulk", self._bulk)])
        app.add_routes(routes)
        counts = self._counts

        class Refusals(AbstractAccessLogger):
            """Counts requests that never reached a handler: garbage, wrong paths, bodies too large."""

            def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
                """One answered request."""
                if 400 <= response.status < 500 and not request.path.startswith("/v1/bulk"):
                    counts.drop("not a request of this protocol")

        runner = web.AppRunner(
            app,
            access_log_class=Refusals,
            access_log=http_log,
            logger=http_log,
            handle_signals=False,
            shutdown_timeout=1.0,
        )
        await runner.setup()
        await web.SockSite(runner, listener, ssl_context=self._tls.listening if self._tls else None).start()
        self._runner = runner
        self._listener = listener

    async def close_links(self) -> None:
        """Say goodbye to all who are connected by a websocket."""
        for ws in list(self._incoming):
            with suppress(ConnectionError, asyncio.TimeoutError, RuntimeError):
                await asyncio.wait_for(ws.close(), 1.0)

    async def close(self) -> None:
        """Accept nobody else, and end."""
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
            self._counts.received[phase_of(message)] += len(frame)
            await self._receive(message)
        except TooEarly:
            raise
        except RemoteProtocolError as error:
            self._drop(str(error))
            raise

    def _drop(self, why: str) -> None:
        log.debug("dropped", why=why)
        self._counts.drop(why)


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
