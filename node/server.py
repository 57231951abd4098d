"""The incoming side of a node: frames on websockets and in POST bodies, and what is answered besides.

Nothing is read beyond the limits of the codec. What breaks a rule is counted and dropped. Who may connect,
how long and how many at once, is said by `node.doors`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from aiohttp import StreamReader, WSMsgType, hdrs, web
from aiohttp.abc import AbstractAccessLogger
from aiohttp.typedefs import Handler, Middleware

from node.doors import BOUNDS, DOORS, Bounds, Doors, Guest
from node.logs import Log
from node.tls import Tls
from node.traffic import Counts, phase_of
from protocol import codec
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.messages import Hello, Message

SMALL_BYTES = 64 * 1024
"""Larger frames go as POST bodies, smaller ones on the websocket."""
MAX_CONTROL_BYTES = 4 + codec.MAX_HEADER_BYTES + SMALL_BYTES
MAX_LINE_BYTES = 4096
"""Of a request's first line, and of each of its headers; aiohttp takes 128 of them."""
LINGERING_S = 1.0
"""So long is read, and thrown away, what comes after an answer, so that who sent it can read that."""
HEARTBEAT_S = 10.0
TOO_EARLY = 425
BULK = "/v1/bulk"
_WORD_BYTES, _KEY_BYTES = 4, 32

Receive = Callable[[Message], Awaitable[None]]

log = Log("transport")  # what strangers send is counted, and logged only at the level debug
http_log = logging.getLogger("murmuration.http")


class Server:
    """Who connects to a node. `receive` may raise RemoteProtocolError: the frame is dropped."""

    def __init__(self, receive: Receive, counts: Counts, tls: Tls | None, bounds: Bounds = BOUNDS) -> None:
        self._receive = receive
        self._counts = counts
        self._tls = tls
        self._bounds = bounds
        self._incoming: set[web.WebSocketResponse] = set()
        self._runner: web.AppRunner | None = None
        self._doors: Doors | None = None

    async def start(self, listener: socket.socket, routes: Iterable[web.RouteDef]) -> None:
        """Serve on an already bound socket. `routes`: what is answered besides frames (node.web)."""
        doors = Doors(self._counts, self._bounds)
        app = web.Application(client_max_size=codec.MAX_FRAME_BYTES, middlewares=[_at(doors, self._drop)])
        app.add_routes([web.get("/v1/link", self._link), web.post(BULK, self._bulk)])
        app.add_routes(routes)
        app[DOORS] = doors
        counts = self._counts

        class Refusals(AbstractAccessLogger):
            """Counts requests that never reached a handler: garbage, wrong paths, bodies too large."""

            def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
                """One answered request."""
                if 400 <= response.status < 500 and not request.path.startswith(BULK):
                    counts.drop("not a request of this protocol")

        runner = web.AppRunner(
            app,
            access_log_class=Refusals,
            access_log=http_log,
            logger=http_log,
            handle_signals=False,
            shutdown_timeout=1.0,
            auto_decompress=False,
            lingering_time=LINGERING_S,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
        )
        await runner.setup()
        if runner.server is None:
            raise RuntimeError("aiohttp made no server")
        doors.open(listener, runner.server, self._tls.listening if self._tls else None)
        self._runner = runner
        self._doors = doors

    @property
    def doors(self) -> Doors:
        """Who is connected; from the start on."""
        if self._doors is None:
            raise RuntimeError("the server is not started")
        return self._doors

    async def close_links(self) -> None:
        """Say goodbye to all who are connected by a websocket."""
        for ws in list(self._incoming):
            with suppress(ConnectionError, asyncio.TimeoutError, RuntimeError):
                await asyncio.wait_for(ws.close(), 1.0)

    async def close(self) -> None:
        """Accept nobody else, and end: whom the doors have accepted, the server or they themselves close."""
        if self._doors is not None:
            await self._doors.shut()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._doors is not None:
            self._doors.close()
            await asyncio.sleep(0)  # an aborted connection is closed in the loop's next turn

    async def _link(self, request: web.Request) -> web.StreamResponse:
        guest = self.doors.guest_of(request)
        ws = web.WebSocketResponse(max_msg_size=MAX_CONTROL_BYTES, heartbeat=HEARTBEAT_S, compress=False)
        await ws.prepare(request)
        guest.link()
        self._incoming.add(ws)
        try:
            async for frame in ws:
                if frame.type is WSMsgType.BINARY:
                    with suppress(RemoteProtocolError):
                        _introduced(guest, await self._take(frame.data))
                elif frame.type is WSMsgType.ERROR:
                    self._drop("a frame over the limit, or no frame")
                else:
                    self._drop("not a binary frame")
        finally:
            self._incoming.discard(ws)
        return ws

    async def _bulk(self, request: web.Request) -> web.StreamResponse:
        guest = self.doors.guest_of(request)
        length = request.content_length
        if length is None or length > codec.MAX_FRAME_BYTES:
            self._drop("a body without a length, or over the limit")
            guest.refuse()
            answer = web.HTTPRequestEntityTooLarge(codec.MAX_FRAME_BYTES, length or 0)
            answer.force_close()
            raise answer
        try:
            with guest.receiving(length) as arrived:
                body = await _whole(request.content, length, arrived)
                if body is None:
                    self._drop("a body that was cut off")
                    return web.Response(status=400)
                _introduced(guest, await self._take(body))
        except TooEarly:
            return web.Response(status=TOO_EARLY)
        except RemoteProtocolError:
            return web.Response(status=400)
        return web.Response(status=204)

    async def _take(self, frame: bytes | memoryview) -> Message:
        """Decode and hand on; what breaks a rule is counted and raised."""
        try:
            message = codec.decode(frame)
            self._counts.received[phase_of(message)] += len(frame)
            await self._receive(message)
            return message
        except TooEarly:
            raise
        except RemoteProtocolError as error:
            self._drop(str(error))
            raise

    def _drop(self, why: str) -> None:
        log.debug("dropped", why=why)
        self._counts.drop(why)


def _introduced(guest: Guest, message: Message) -> None:
    """A message was taken: who sent the first one is believed to be who it says, and is no stranger."""
    if guest.is_proved:
        guest.progress()
    else:
        guest.prove(message.announce.key if isinstance(message, Hello) else os.urandom(_KEY_BYTES))


def _at(doors: Doors, drop: Callable[[str], None]) -> Middleware:
    """What every request passes, whatever it asks for."""

    @web.middleware
    async def passed(request: web.Request, handler: Handler) -> web.StreamResponse:
        """Whose it is; and no body that has to be unpacked, or that nobody reads."""
        guest = doors.guest_of(request)
        with guest.asking():
            refusal = _refusal(request)
            if refusal is not None:
                why, answer = refusal
                drop(why)
                guest.refuse()
                answer.force_close()
                raise answer
            return await handler(request)

    return passed


def _refusal(request: web.Request) -> tuple[str, web.HTTPException] | None:
    """Why a request is not even looked at, if so."""
    if any(coding.lower() != "identity" for coding in request.headers.getall(hdrs.CONTENT_ENCODING, ())):
        answer = web.HTTPUnsupportedMediaType(text="a body is sent as it is: no Content-Encoding\n")
        return "a compressed body", answer
    if request.body_exists and request.path != BULK:
        return "a body that nobody asked for", web.HTTPRequestEntityTooLarge(0, request.content_length or 0)
    return None


async def _whole(content: StreamReader, length: int, arrived: Callable[[int], None]) -> memoryview | None:
    """The body; None where its end does not come."""
    with suppress(ConnectionError, asyncio.IncompleteReadError, web.RequestPayloadError):
        return await _body(content, length, arrived)
    return None


async def _body(content: StreamReader, length: int, arrived: Callable[[int], None]) -> memoryview:
    """The whole body, in a buffer that nothing else holds, with its payload at a word's boundary.

    The buffer grows with what has arrived, of which `arrived` is told.
    """
    piece = await content.readexactly(min(_WORD_BYTES, length)) if length else b""
    lead = -codec.payload_start(piece) % _WORD_BYTES
    body = bytearray(lead)
    while piece:
        body += piece
        arrived(len(body) - lead)
        piece = await content.readany()
    return memoryview(body)[lead:]
