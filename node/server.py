"""The incoming side of a node: frames on websockets and in POST bodies, and what is answered besides.

Nothing is read beyond the limits of the codec. What breaks a rule is counted and dropped.
Links, and whose they are, are the matter of `node.visits`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable
from contextlib import suppress

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger

from node import versions
from node.intake import Intake
from node.tls import Tls
from node.traffic import Counts
from node.versions import UPGRADE_REQUIRED, Mixed
from node.visits import Visits, new_websocket
from protocol import codec
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.names import Key

MAX_LINKS_IN = 1024
TOO_EARLY = 425
_WORD_BYTES = 4

http_log = logging.getLogger("murmuration.http")


class Server:
    """Who connects to a node."""

    def __init__(self, intake: Intake, visits: Visits, mixed: Mixed, counts: Counts, tls: Tls | None) -> None:
        self._intake = intake
        self._visits = visits
        self._mixed = mixed
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
                is_counted = request.path.startswith("/v1/bulk") or response.status == UPGRADE_REQUIRED
                if 400 <= response.status < 500 and not is_counted:
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
            self._intake.drop("more links than are allowed")
            raise web.HTTPServiceUnavailable
        theirs = versions.of_request(request)
        if theirs is not None:
            self._intake.drop(versions.OTHER)
            self._mixed.met(request, theirs)
            return versions.refusal()

        def proved(key: Key) -> None:
            """Where the limits on connections learn whose this one is."""

        ws = new_websocket()
        self._incoming.add(ws)
        try:
            await self._visits.host(request, ws, proved)
        finally:
            self._incoming.discard(ws)
        return ws

    async def _bulk(self, request: web.Request) -> web.StreamResponse:
        length = request.content_length
        if length is None or length > codec.MAX_FRAME_BYTES:
            self._intake.drop("a body without a length, or over the limit")
            raise web.HTTPRequestEntityTooLarge(codec.MAX_FRAME_BYTES, length or 0)
        try:
            await self._intake.take(await _body(request, length), self._visits.back_of(request))
        except TooEarly:
            return web.Response(status=TOO_EARLY)
        except RemoteProtocolError:
            return web.Response(status=400)
        return web.Response(status=204)


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
