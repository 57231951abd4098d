"""Carriers: the two websockets of each member at a relay, GET /v1/relay.

    handshake and admission (PROVE_S at most) ──▶ frames, in order ──▶ end

One task reads a carrier, another writes it. The one that reads never waits for a slow reader of another
carrier; it rests where its own member is beyond its rate. protocol.relay.switch decides what goes where.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from aiohttp import WSCloseCode, WSMsgType, web

from node.net.incoming.doors import DOORS, Guest
from node.net.incoming.routes import Routes
from node.net.incoming.visits import NO_KEY, PROVE_S, data_of, welcome
from node.net.traffic import Counts
from node.relay.websockets import CLOSE_S, new_websocket
from node.system.system import System
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.relay.admission import Admit, Licences, Refused, admitted_keys, read_admit, write_admission
from protocol.relay.frames import MAX_FRAME_BYTES, Absence
from protocol.relay.switch import Carrier, SwarmId, Switch
from protocol.wire.handshake import RELAY
from protocol.wire.ids import Key

ROUTE = "/v1/relay"
AHEAD_BYTES = 64 * 1024
"""What may wait in a carrier's transport: a frame, so that the next ones wait in the switch, in turn."""
REPLACED = "a carrier that a newer one of its member replaced"
NO_FRAME = "a carrier with a message that is no frame: closed"


@dataclass(frozen=True, eq=False)
class _Open:
    ws: web.WebSocketResponse
    guest: Guest
    wake: asyncio.Event

    async def say_goodbye(self) -> None:
        """Closes the websocket, as the relay ends."""
        with suppress(ConnectionError, TimeoutError, RuntimeError):
            await asyncio.wait_for(self.ws.close(code=WSCloseCode.GOING_AWAY), CLOSE_S)


class Carriers:
    """All carriers of a relay."""

    def __init__(
        self, key: NodeKey, licences: Licences, switch: Switch, counts: Counts, system: System
    ) -> None:
        """`key`: the relay's own; `counts`: where what is refused is counted."""
        self._key = key
        self._licences = licences
        self._switch = switch
        self._counts = counts
        self._system = system
        self._open: dict[Carrier, _Open] = {}

    @property
    def routes(self) -> Routes:
        """The route of a member's carriers."""
        return [web.get(ROUTE, self._serve)]

    async def close(self) -> None:
        """Says goodbye on every carrier."""
        await asyncio.gather(*(one.say_goodbye() for one in self._open.values()))

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        ws, guest = new_websocket(MAX_FRAME_BYTES), request.app[DOORS].guest_of(request)
        guest.link()
        await ws.prepare(request)
        if request.transport is not None:
            request.transport.set_write_buffer_limits(high=AHEAD_BYTES)
        try:
            async with asyncio.timeout(PROVE_S):
                key = await welcome(ws, self._key, self._system.entropy, RELAY)
                asked = read_admit(data_of(await ws.receive()))
        except ConnectionError:
            return ws  # the member has gone
        except (TimeoutError, RemoteProtocolError):
            self._counts.drop(NO_KEY)
            await ws.close(code=WSCloseCode.POLICY_VIOLATION)
            return ws
        try:
            carrier = self._enter(_Open(ws, guest, asyncio.Event()), key, asked)
        except RemoteProtocolError as error:
            self._counts.drop(str(error))
            with suppress(ConnectionError):
                await ws.send_bytes(write_admission(Refused(str(error), is_final=True)))
                await ws.close(code=WSCloseCode.POLICY_VIOLATION)
            return ws
        await self._host(ws, carrier)
        return ws

    def _enter(self, one: _Open, key: Key, asked: Admit) -> Carrier:
        """Admits a member's carrier, or raises RemoteProtocolError."""
        members = asked.credentials.members
        keys = admitted_keys(asked.credentials, key, self._licences)
        carrier, older, woken = self._switch.enter(
            key, asked.kind, asked.process, SwarmId(members.inviter, members.swarm), keys
        )
        one.guest.prove(key)
        self._open[carrier] = one
        self._wake(woken)
        if older is not None:
            self._open[older].guest.close(REPLACED)
        return carrier

    async def _host(self, ws: web.WebSocketResponse, carrier: Carrier) -> None:
        """Serves an admitted carrier to its end."""
        writing = asyncio.create_task(self._write(ws, carrier), name="a relay's carrier")
        try:
            await self._read(ws, carrier)
        finally:
            writing.cancel()
            is_silent = isinstance(ws.exception(), TimeoutError)
            self._wake(self._switch.leave(carrier, Absence.SILENT if is_silent else Absence.CLOSED))
            del self._open[carrier]
            await asyncio.gather(writing, return_exceptions=True)

    async def _read(self, ws: web.WebSocketResponse, carrier: Carrier) -> None:
        clock = asyncio.get_running_loop().time
        async for message in ws:
            try:
                if message.type is not WSMsgType.BINARY:
                    raise RemoteProtocolError(NO_FRAME)
                passed = self._switch.pass_on(carrier, memoryview(message.data), clock())
            except RemoteProtocolError:
                self._counts.drop(NO_FRAME)
                await ws.close(code=WSCloseCode.POLICY_VIOLATION)
                return
            self._wake(passed.woken)
            if passed.rest_s > 0:
                await asyncio.sleep(passed.rest_s)

    async def _write(self, ws: web.WebSocketResponse, carrier: Carrier) -> None:
        """Runs as the only task that writes a carrier."""
        wake = self._open[carrier].wake
        with suppress(ConnectionError):  # who reads the carrier notices, too
            await ws.send_bytes(write_admission(self._switch.limits.welcome))
            while True:
                parts = self._switch.take(carrier)
                if parts is None:
                    wake.clear()
                    await wake.wait()
                else:
                    await ws.send_bytes(b"".join(parts))

    def _wake(self, carriers: Iterable[Carrier]) -> None:
        for carrier in carriers:
            self._open[carrier].wake.set()
