"""Ends of links for tests: a real transport, and peers that misbehave, on real sockets."""

import asyncio
import os
import socket
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from itertools import repeat

import aiohttp
from aiohttp import WSMsgType, web

from node.net.incoming.doors import BOUNDS
from node.net.incoming.server import Server
from node.net.incoming.visits import Visits
from node.net.intake import Intake
from node.net.outgoing.link import LIMITS
from node.net.tls import make_tls
from node.net.transport import Callbacks, Transport
from node.net.versions import SUBPROTOCOL, Mixed
from protocol.crypto.node_key import NodeKey
from protocol.wire import codec, handshake
from protocol.wire import masked_messages as masked
from protocol.wire.limits import MAX_FRAME_BYTES
from protocol.wire.messages import Accepted
from tests.patience import ENOUGH_S

ONE, OTHER, THIRD = (NodeKey(bytes([number]) * 32) for number in (1, 2, 3))
"""Far longer than any of these tests takes; a wait that exceeds it fails."""
H, S = bytes(32), bytes(64)
BULK = masked.Masked(masked.MaskedHead(H, H, 0, H, S), bytes(300_000))


def bulk(number):
    return replace(BULK, head=replace(BULK.head, index=number))


def small(number):
    return Accepted(number.to_bytes(16, "big"))


def anybody(_):
    """Accepts everyone as a member, for tests where that does not matter."""
    return True


def a_server(receive, counts, tls=None, bounds=BOUNDS, is_member=anybody, key=ONE):
    """Runs the incoming side alone."""
    intake = Intake(receive, counts)
    return Server(intake, Visits(key, intake), Mixed(print), tls, is_member, bounds)


class End:
    """A transport, what it received and from whom, and what it reports of others."""

    def __init__(
        self,
        key=ONE,
        tls=None,
        limits=LIMITS,
        expected=frozenset(),
        is_member=anybody,
        heavy=False,
        is_wanted=lambda _: False,
    ):
        self.key, self.expected = key, frozenset(expected)
        self.got, self.lost, self.again = asyncio.Queue(), asyncio.Queue(), asyncio.Queue()
        self.warnings, self.refuses, self.replies = [], [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self.listener.getsockname()[1]}"
        context = make_tls(key, tls, self.endpoint, lambda _: self.expected) if tls else None
        told = (self._receive, self._unreachable, self._reconnected, self.warnings.append)
        self.transport = Transport(Callbacks(*told, is_member, is_wanted), heavy, context, key, limits)

    async def _receive(self, message, back):
        if self.refuses and (error := self.refuses.pop(0)) is not None:
            raise error
        self.got.put_nowait((message, back))
        for asked, replies in self.replies:
            if asked == message:
                back.send(replies)

    async def _unreachable(self, endpoint, why):
        self.lost.put_nowait((endpoint, why))

    async def _reconnected(self, endpoint):
        self.again.put_nowait(endpoint)

    async def take(self, count):
        return [(await self.got.get())[0] for _ in range(count)]

    @property
    def dropped(self):
        return dict(self.transport.counts.dropped)

    @property
    def links(self):
        return self.transport._links


@asynccontextmanager
async def node_state(*ends):
    """Starts the transports of `ends` on their listeners; closes both afterwards."""
    for end in ends:
        await end.transport.start(end.listener, [])
    try:
        async with asyncio.timeout(ENOUGH_S):
            yield ends
    finally:
        for end in ends:
            await end.transport.close()
            end.listener.close()


@asynccontextmanager
async def started(server, routes=()):
    """Runs a server or a transport on a free port; returns its address."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        await server.start(listener, [*routes])
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            await server.close()


@asynccontextmanager
async def far_side(*routes, ssl=None):
    """Serves a peer that is no node, or a faulty one; returns its address."""
    app = web.Application(client_max_size=MAX_FRAME_BYTES)
    app.add_routes(routes)
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listener, ssl_context=ssl).start()
    with closing(listener):
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            await runner.cleanup()


async def shake(ws, key):
    """Performs the acceptor's whole handshake as `key`; returns the dialler's key."""
    theirs, mine = handshake.read_knock(await ws.receive_bytes()), os.urandom(32)
    await ws.send_bytes(handshake.challenge(key, theirs, mine))
    dialler = handshake.read_proof(await ws.receive_bytes(), theirs, mine, key.public)
    await ws.send_bytes(handshake.ticket(b"t" * 32))
    return dialler


def acceptor(then, protocols=(SUBPROTOCOL,)):
    """Answers GET /v1/link with a websocket; `then` is all that is done with it."""

    async def link(request):
        ws = web.WebSocketResponse(protocols=protocols, timeout=0.1)
        await ws.prepare(request)
        await then(ws)
        return ws

    return web.get("/v1/link", link)


def accepting(key=OTHER, then=None):
    """Answers GET /v1/link as the holder of `key`; `then` runs after the handshake."""

    async def link(ws):
        await shake(ws, key)
        if then is not None:
            await then(ws)
        async for _ in ws:
            pass

    return acceptor(link)


def answering(*answers):
    """Answers POST /v1/bulk with these statuses in turn, then always the last; records what it received."""
    left, frames = list(answers), []

    async def take(request):
        frames.append(codec.decode(await request.read()))
        status, headers = left.pop(0) if len(left) > 1 else left[0]
        return web.Response(status=status, headers=headers)

    return web.post("/v1/bulk", take), frames


@asynccontextmanager
async def dialled(endpoint, protocols=(SUBPROTOCOL,)):
    """Opens a websocket to an end, before any handshake."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://{endpoint}/v1/link", protocols=protocols, max_msg_size=1 << 20) as ws,
    ):
        yield ws


async def prove(ws, key, nonce=b"d" * 32):
    """Performs the dialler's whole handshake; returns the ticket."""
    await ws.send_bytes(handshake.knock(nonce))
    challenged = handshake.read_challenge(await ws.receive_bytes(), nonce)
    await ws.send_bytes(handshake.proof(key, nonce, challenged))
    return handshake.read_ticket(await ws.receive_bytes())


async def ends(ws):
    """Waits until the far side closes; returns what it sent before."""
    said = []
    while (frame := await ws.receive()).type is WSMsgType.BINARY:
        said.append(frame.data)
    return said


async def until(what):
    """Runs the loop until `what` holds."""
    for _ in repeat(None):
        if what():
            return
        await asyncio.sleep(0)


async def post(endpoint, message, headers):
    body = codec.encode(message).join()
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://{endpoint}/v1/bulk", data=body, headers=headers) as answer,
    ):
        return answer.status


async def nothing(*_):
    """What nobody calls."""
    raise AssertionError


def tls_of(key, choice="on", endpoint="127.0.0.1:1"):
    return make_tls(key, choice, endpoint, lambda _: frozenset())


def deaf(tls=None):
    """Returns a transport that hears nobody, for routes of its own."""
    told = (nothing, nothing, nothing, nothing)
    return Transport(Callbacks(*told, is_member=anybody), heavy=False, tls=tls, key=ONE)
