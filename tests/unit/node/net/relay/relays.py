"""A relay in the test's own process, on real sockets: today's switch behind a websocket."""

from __future__ import annotations

import asyncio
import os
import socket

from aiohttp import WSMsgType, web

from protocol.relay.admission import (
    SUBPROTOCOL,
    Licences,
    Refused,
    Relay,
    read_admit,
    sign_members,
    write_admission,
)
from protocol.relay.frames import MAX_FRAME_BYTES, Absence
from protocol.relay.switch import Passed, SwarmId, Switch
from protocol.wire import handshake
from tests.unit.node.links import THIRD, tls_of

RELAY_KEY = THIRD
WORD = "v8k2-qm4t"
LICENCES = Licences(RELAY_KEY, WORD)
SWARM = bytes(32)


def roster(*keys):
    """The members, signed by the first."""
    return sign_members(keys[0], SWARM, tuple(key.public for key in keys))


class TestRelay:
    """Listens on one port for its whole life; `stop` and `start` are a crash and a restart."""

    __test__ = False

    def __init__(self, key=RELAY_KEY):
        self.key = key
        with socket.create_server(("127.0.0.1", 0)) as sock:
            self.port = sock.getsockname()[1]
        self.endpoint = f"127.0.0.1:{self.port}"
        self.refusal = None
        self.loses = lambda message: False
        self._runner = None

    def relay(self, inviter):
        """What the roster says of it."""
        return Relay(self.endpoint, RELAY_KEY.public, LICENCES.give(inviter.public))

    async def start(self):
        self.switch, self._wakes, self._sockets = Switch(), {}, {}
        app = web.Application()
        app.add_routes([web.get("/v1/relay", self._serve)])
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
        await self._runner.setup()
        tls = tls_of(self.key).server
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=tls, reuse_address=True).start()

    async def stop(self):
        for ws in list(self._sockets.values()):
            self.cut(ws)
        await self._runner.cleanup()

    def cut(self, ws):
        """Ends a carrier without a word."""
        if ws._req is not None and ws._req.transport is not None:
            ws._req.transport.abort()

    def cut_member(self, key):
        for carrier, ws in list(self._sockets.items()):
            if carrier.key == key:
                self.cut(ws)

    async def _serve(self, request):
        ws = web.WebSocketResponse(protocols=(SUBPROTOCOL,), compress=False, max_msg_size=MAX_FRAME_BYTES + 1)
        await ws.prepare(request)
        theirs, mine = handshake.read_knock(await ws.receive_bytes()), os.urandom(32)
        await ws.send_bytes(handshake.challenge(self.key, theirs, mine, handshake.RELAY))
        key = handshake.read_proof(await ws.receive_bytes(), theirs, mine, self.key.public, handshake.RELAY)
        admit = read_admit(await ws.receive_bytes())
        if self.refusal is not None:
            await ws.send_bytes(write_admission(Refused(*self.refusal)))
            return ws
        await ws.send_bytes(write_admission(self.switch.limits.welcome))
        swarm = SwarmId(admit.members.inviter, admit.members.swarm)
        carrier, older, woken = self.switch.enter(
            key, admit.kind, admit.process, swarm, frozenset(admit.members.keys)
        )
        if older is not None:
            await self._sockets.pop(older).close()
        self._sockets[carrier], self._wakes[carrier] = ws, asyncio.Event()
        self._wake(Passed(woken))
        writing = asyncio.create_task(self._write(carrier, ws))
        try:
            async for message in ws:
                if message.type is WSMsgType.BINARY and not self.loses(message.data):
                    self._wake(self.switch.pass_on(carrier, memoryview(message.data), 0.0))
        finally:
            writing.cancel()
            self._sockets.pop(carrier, None)
            self._wake(Passed(self.switch.leave(carrier, Absence.CLOSED)))
        return ws

    def _wake(self, passed):
        for carrier in passed.woken:
            if carrier in self._wakes:
                self._wakes[carrier].set()

    async def _write(self, carrier, ws):
        while True:
            self._wakes[carrier].clear()
            while (parts := self.switch.take(carrier)) is not None:
                await ws.send_bytes(b"".join(parts))
            await self._wakes[carrier].wait()
