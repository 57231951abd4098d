"""The incoming side of a node: it serves frames on websockets and in POST bodies, and other routes.

The server reads nothing beyond the limits of the codec; it counts and drops what breaks a rule.
`node.net.incoming.doors` decides who may connect, for how long and how many at once;
`node.net.incoming.visits` handles links and the keys at their far ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from aiohttp import StreamReader, hdrs, web, web_app
from aiohttp.abc import AbstractAccessLogger
from aiohttp.typedefs import Handler, Middleware

from node.net import versions
from node.net.incoming.doors import BOUNDS, DOORS, Bounds, Doors, Guest
from node.net.incoming.visits import Visits, new_websocket, ticket_of
from node.net.intake import Intake
from node.net.tls import Tls
from node.net.versions import UPGRADE_REQUIRED, Mixed
from node.system.addresses import join_endpoint
from node.system.streams import BoundAddress
from node.system.system import SYSTEM, System
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.wire import codec
from protocol.wire.ids import Key
from protocol.wire.limits import MAX_FRAME_BYTES

MAX_LINE_BYTES = 4096
"""Limit of a request's first line and of each of its headers; aiohttp accepts 128 headers."""
LINGERING_S = 1.0
"""How long the server discards input after an answer, so that the sender can still read the answer."""
TOO_EARLY = 425
SLOW_BODY_S = 1.0
"""A member's body that takes longer is reported while it arrives."""
LINK, BULK = "/v1/link", "/v1/bulk"
OF_MEMBERS = frozenset((LINK, BULK, "/healthz"))
"""What a stream that a relay brought may ask for: the page is for this machine alone."""
_WORD_BYTES = 4

Arriving = Callable[[Key], Awaitable[None]]

http_log = logging.getLogger("murmuration.http")


async def ignored(_: Key) -> None:
    """A machine that waits for no member's bulk."""


class Server:
    """The server for all connections to a node."""

    def __init__(
        self,
        intake: Intake,
        visits: Visits,
        mixed: Mixed,
        tls: Tls | None,
        is_member: Callable[[Key], bool],
        bounds: Bounds = BOUNDS,
        system: System = SYSTEM,
        arriving: Arriving = ignored,
    ) -> None:
        """Creates the server; `start` opens it.

        Args:
            intake: takes each frame, and counts what is dropped.
            visits: handles links.
            mixed: handles nodes of other versions.
            tls: None for connections without TLS.
            is_member: whether the holder of a proved key has a place that no stranger can take.
            bounds: the bounds of connections and bodies.
            system: the computer on which it runs.
            arriving: takes a member whose body is on its way, each SLOW_BODY_S until it is whole.
        """
        self._intake = intake
        self._visits = visits
        self._mixed = mixed
        self._is_member = is_member
        self._tls = tls
        self._bounds = bounds
        self._system = system
        self._incoming: dict[web.WebSocketResponse, None] = {}
        """The open websockets, in the order in which they were opened."""
        self._arriving = arriving
        self._takes_links = True
        self._runner: web.AppRunner | None = None
        self._doors: Doors | None = None

    async def start(self, listener: BoundAddress, routes: Iterable[web.RouteDef]) -> None:
        """Serves on an already bound socket. `routes` are those besides frames (node.net.incoming.routes)."""
        counts = self._intake.counts
        doors = Doors(counts, self._bounds, self._system, self._mixed.look)
        app = web.Application(client_max_size=MAX_FRAME_BYTES, middlewares=[_at(doors, self._intake.drop)])
        app.add_routes([web.get(LINK, self._link), web.post(BULK, self._bulk)])
        app.add_routes(routes)
        app[DOORS] = doors

        class Refusals(AbstractAccessLogger):
            """Counts requests that never reached a handler: garbage, wrong paths, bodies too large."""

            def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
                """Counts a refused request, unless it was counted elsewhere."""
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
        bound = join_endpoint(*listener.getsockname()[:2])
        if self._tls is None:
            doors.open(listener, runner.server, None)
        else:
            doors.open(listener, runner.server, self._tls.listening_at(bound), self._tls.server)
        self._runner = runner
        self._doors = doors

    @property
    def doors(self) -> Doors:
        """The doors; RuntimeError before `start`."""
        if self._doors is None:
            raise RuntimeError("the server is not started")
        return self._doors

    async def close_links(self) -> None:
        """Says goodbye on every incoming websocket, and answers further links and bulk with 503."""
        self._takes_links = False
        for ws in list(self._incoming):
            with suppress(ConnectionError, asyncio.TimeoutError, RuntimeError):
                await asyncio.wait_for(ws.close(), 1.0)

    async def close(self) -> None:
        """Stops accepting and ends; the server or the doors close every accepted connection."""
        if self._doors is not None:
            await self._doors.shut()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._doors is not None:
            self._doors.close()
            await asyncio.sleep(0)  # an aborted connection is closed in the loop's next turn
        # aiohttp keeps the last 1,024 handlers of a process, each with its whole node; nothing public ends it
        if (cache := getattr(web_app, "_cached_build_middleware", None)) is not None:
            cache.cache_clear()

    async def _link(self, request: web.Request) -> web.StreamResponse:
        self._check_open()
        mine = self._system.version
        theirs = versions.of_request(request, mine)
        if theirs != mine:
            self._intake.drop(versions.OTHER)
            await self._mixed.met(request, versions.difference(theirs, mine))
            return versions.refusal(mine)
        guest = self.doors.guest_of(request)

        def heard(key: Key) -> None:
            """Moves a guest that is a member by now to `members`; called at the proof and at each message."""
            if guest.is_proved:
                guest.progress()
            elif self._is_member(key):
                guest.prove(key)

        ws = new_websocket(mine, relayed=guest.is_relayed)
        guest.link()
        self._incoming[ws] = None
        try:
            await self._visits.host(request, ws, self.doors, heard)
        finally:
            del self._incoming[ws]
        return ws

    def _check_open(self) -> None:
        """Raises 503 once the node has left the swarm: it may still show its page."""
        if not self._takes_links:
            raise web.HTTPServiceUnavailable(text="this node has left the swarm\n")

    async def _bulk(self, request: web.Request) -> web.StreamResponse:
        self._check_open()
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
                with self._told_of(key if guest.is_proved else None):
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

    @contextmanager
    def _told_of(self, key: Key | None) -> Iterator[None]:
        """Reports a member's body, as often as it is still under way after another SLOW_BODY_S."""
        telling = None if key is None else asyncio.create_task(self._tell_of(key), name="slow bulk")
        try:
            yield
        finally:
            if telling is not None:
                telling.cancel()

    async def _tell_of(self, key: Key) -> None:
        while True:
            await asyncio.sleep(SLOW_BODY_S)
            await self._arriving(key)

    def _shown(self, request: web.Request, guest: Guest) -> Key | None:
        """Returns the key that the request's ticket stands for, None without one; admits a member's guest."""
        ticket = ticket_of(request)
        key = None if ticket is None else self.doors.owner(ticket)
        if ticket is not None and key is not None and self._is_member(key):
            self.doors.admit(guest, ticket)
        return key


def _at(doors: Doors, drop: Callable[[str], None]) -> Middleware:
    """Returns the middleware that every request passes."""

    @web.middleware
    async def passed(request: web.Request, handler: Handler) -> web.StreamResponse:
        """Accounts for the request's guest; refuses compressed bodies and bodies that no route reads."""
        guest = doors.guest_of(request)
        with guest.asking():
            refusal = _refusal(request, is_relayed=guest.is_relayed)
            if refusal is not None:
                why, answer = refusal
                drop(why)
                guest.refuse()
                answer.force_close()
                raise answer
            return await handler(request)

    return passed


def _refusal(request: web.Request, *, is_relayed: bool) -> tuple[str, web.HTTPException] | None:
    """Returns the reason and the answer if a request is refused unseen; else None."""
    if is_relayed and request.path not in OF_MEMBERS:
        return "a relayed request for the page", web.HTTPNotFound()
    if any(coding.lower() != "identity" for coding in request.headers.getall(hdrs.CONTENT_ENCODING, ())):
        answer = web.HTTPUnsupportedMediaType(text="a body is sent as it is: no Content-Encoding\n")
        return "a compressed body", answer
    if request.body_exists and request.path != BULK:
        return "a body that nobody asked for", web.HTTPRequestEntityTooLarge(0, request.content_length or 0)
    return None


async def _whole(content: StreamReader, length: int, arrived: Callable[[int], None]) -> memoryview | None:
    """Reads the whole body; returns None if it was cut off."""
    with suppress(ConnectionError, asyncio.IncompleteReadError, web.RequestPayloadError):
        return await _body(content, length, arrived)
    return None


async def _body(content: StreamReader, length: int, arrived: Callable[[int], None]) -> memoryview:
    """Reads the whole body into a buffer of its own, with its payload at a word's boundary.

    The buffer grows as data arrives; `arrived` is called with the number of bytes so far.
    """
    piece = await content.readexactly(min(_WORD_BYTES, length)) if length else b""
    lead = -codec.payload_start(piece) % _WORD_BYTES
    body = bytearray(lead)
    while piece:
        body += piece
        arrived(len(body) - lead)
        piece = await content.readany()
    return memoryview(body)[lead:]
