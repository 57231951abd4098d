"""The incoming side of a node: frames on websockets and in POST bodies, and what is answered besides.

Nothing is read beyond the limits of the codec. What breaks a rule is counted and dropped. Who may connect,
how long and how many at once, is said by `node.net.doors`; links, and whose they are, are the matter of
`node.net.visits`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress

from aiohttp import StreamReader, hdrs, web
from aiohttp.abc import AbstractAccessLogger
from aiohttp.typedefs import Handler, Middleware

from node.net import versions
from node.net.doors import BOUNDS, DOORS, Bounds, Doors, Guest
from node.net.intake import Intake
from node.net.tls import Tls
from node.net.traffic import Counts
from node.net.versions import UPGRADE_REQUIRED, Mixed
from node.net.visits import Visits, new_websocket, ticket_of
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.wire import codec
from protocol.wire.ids import Key
from protocol.wire.limits import MAX_FRAME_BYTES

MAX_LINE_BYTES = 4096
"""Of a request's first line, and of each of its headers; aiohttp takes 128 of them."""
LINGERING_S = 1.0
"""So long is read, and thrown away, what comes after an answer, so that who sent it can read that."""
TOO_EARLY = 425
BULK = "/v1/bulk"
_WORD_BYTES = 4

http_log = logging.getLogger("murmuration.http")


class Server:
    """Who connects to a node."""

    def __init__(
        self,
        intake: Intake,
        visits: Visits,
        mixed: Mixed,
        counts: Counts,
        tls: Tls | None,
        is_member: Callable[[Key], bool],
        bounds: Bounds = BOUNDS,
    ) -> None:
        """`is_member`: whether who proved this key has room that no stranger can take."""
        self._intake = intake
        self._visits = visits
        self._mixed = mixed
        self._is_member = is_member
        self._counts = counts
        self._tls = tls
        self._bounds = bounds
        self._incoming: set[web.WebSocketResponse] = set()
        self._runner: web.AppRunner | None = None
        self._doors: Doors | None = None

    async def start(self, listener: socket.socket, routes: Iterable[web.RouteDef]) -> None:
        """Serve on an already bound socket. `routes`: what is answered besides frames (node.net.routes)."""
        doors = Doors(self._counts, self._bounds)
        app = web.Application(client_max_size=MAX_FRAME_BYTES, middlewares=[_at(doors, self._intake.drop)])
        app.add_routes([web.get("/v1/link", self._link), web.post(BULK, self._bulk)])
        app.add_routes(routes)
        app[DOORS] = doors
        counts = self._counts

        class Refusals(AbstractAccessLogger):
            """Counts requests that never reached a handler: garbage, wrong paths, bodies too large."""

            def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
                """One answered request."""
                is_counted = request.path.startswith(BULK) or response.status == UPGRADE_REQUIRED
                if 400 <= response.status < 500 and not is_counted:
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
        theirs = versions.of_request(request)
        if theirs is not None:
            self._intake.drop(versions.OTHER)
            self._mixed.met(request, theirs)
            return versions.refusal()
        guest = self.doors.guest_of(request)

        def heard(key: Key) -> None:
            """A key was proved, or a message of it was taken: whoever is a member by now has room as one."""
            if guest.is_proved:
                guest.progress()
            elif self._is_member(key):
                guest.prove(key)

        ws = new_websocket()
        guest.link()
        self._incoming.add(ws)
        try:
            await self._visits.host(request, ws, self.doors, heard)
        finally:
            self._incoming.discard(ws)
        return ws

    async def _bulk(self, request: web.Request) -> web.StreamResponse:
        guest = self.doors.guest_of(request)
        length = request.content_length
        if length is None or length > MAX_FRAME_BYTES:
            self._intake.drop("a body without a length, or over the limit")
            guest.refuse()
            answer = web.HTTPRequestEntityTooLarge(MAX_FRAME_BYTES, length or 0)
            answer.force_close()
            raise answer
        key = self._shown(request, guest)
        try:
            with guest.receiving(length) as arrived:
                body = await _whole(request.content, length, arrived)
                if body is None:
                    self._intake.drop("a body that was cut off")
                    return web.Response(status=400)
                await self._intake.take(body, self._visits.back_to(key))
        except TooEarly:
            return web.Response(status=TOO_EARLY)
        except RemoteProtocolError:
            return web.Response(status=400)
        return web.Response(status=204)

    def _shown(self, request: web.Request, guest: Guest) -> Key | None:
        """Whose link a request is beside, by the ticket that it shows; a member's has a member's room."""
        ticket = ticket_of(request)
        key = None if ticket is None else self.doors.owner(ticket)
        if ticket is not None and key is not None and self._is_member(key):
            self.doors.admit(guest, ticket)
        return key


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
