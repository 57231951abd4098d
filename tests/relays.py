"""A relay on a real socket, and small clients of it: members with carriers, inviters, joiners."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace

import aiohttp

from node.net.tls import make_tls
from node.net.transport import Callbacks, Transport
from node.relay.relaying import Relaying
from protocol.crypto.node_key import NodeKey
from protocol.relay.admission import (
    SUBPROTOCOL,
    Admit,
    CarrierKind,
    Credentials,
    Licences,
    Welcome,
    read_answer,
    sign_members,
    write_admission,
)
from protocol.relay.frames import Frame, FrameKind, read_frame
from protocol.relay.room_messages import (
    OpenRooms,
    read_to_inviter,
    read_to_joiner,
    write_room_message,
)
from protocol.relay.switch import LIMITS
from protocol.wire import handshake
from tests.patience import ENOUGH_S
from tests.relay_rooms import word_share

WORD = "v8k2-qm4t"
RELAY_KEY = NodeKey(bytes([100]) * 32)
KEYS = tuple(NodeKey(number.to_bytes(32, "big")) for number in range(1, 34))
SWARM = bytes([7]) * 32


async def _nothing(*_):
    """A relay's machine is not part of these tests."""


class Relay:
    """A running relay: `url` is where it is, `relaying` what it is."""

    def __init__(self, key=RELAY_KEY, limits=LIMITS, tls=None):
        self.key, self._limits, self._tls = key, limits, tls
        self.licences = Licences(key, WORD)

    async def start(self, listener):
        host, port = listener.getsockname()
        endpoint = f"{host}:{port}"
        self.url = f"{'https' if self._tls else 'http'}://{endpoint}"
        tls = make_tls(self.key, self._tls, endpoint, lambda _: frozenset()) if self._tls else None
        callbacks = Callbacks(_nothing, _nothing, _nothing, print, lambda _: False)
        self.transport = Transport(callbacks, False, tls, self.key)
        self.relaying = Relaying(self.key, WORD, self.transport.counts, self._limits)
        await self.transport.start(listener, self.relaying.routes)

    async def stop(self):
        await self.relaying.close()
        await self.transport.close()

    @property
    def dropped(self):
        return dict(self.transport.counts.dropped)

    def admit(self, keys=KEYS, inviter=KEYS[0], kind=CarrierKind.BULK, process=1, **other):
        members = sign_members(inviter, SWARM, tuple(key.public for key in keys[:64]))
        shown = Credentials(members, self.licences.give(inviter.public))
        return Admit(kind, process, replace(shown, **other))


@asynccontextmanager
async def running(**how):
    """Yields a relay on a free port, and an HTTP client for it."""
    relay = Relay(**how)
    with closing(socket.create_server(("127.0.0.1", 0), backlog=512)) as listener:
        await relay.start(listener)
        try:
            async with asyncio.timeout(ENOUGH_S), aiohttp.ClientSession() as client:
                yield relay, client
        finally:
            await relay.stop()


async def dial(client, url, path, limit=1 << 21):
    """Opens a websocket at a relay."""
    return await client.ws_connect(
        f"{url}{path}", protocols=(SUBPROTOCOL,), ssl=False, max_msg_size=limit, autoping=True
    )


async def prove(ws, key, labels=handshake.RELAY):
    """Runs the dialler's part of the handshake; returns the relay's key."""
    mine = os.urandom(handshake.NONCE_BYTES)
    await ws.send_bytes(handshake.knock(mine))
    challenged = handshake.read_challenge(await ws.receive_bytes(), mine, labels)
    await ws.send_bytes(handshake.proof(key, mine, challenged, labels))
    return challenged.key


@dataclass(eq=False)
class Member:
    """One carrier of a member, as its far end has it."""

    ws: aiohttp.ClientWebSocketResponse
    key: NodeKey

    async def send(self, to, data=b"", kind=FrameKind.DATA, stream=1, offset=0):
        frame = Frame(to.public, kind, stream, offset, memoryview(data))
        await self.ws.send_bytes(b"".join(frame.parts))

    async def receive(self):
        return read_frame(memoryview(await self.ws.receive_bytes()))


async def ask(client, relay, key, asked):
    """Asks for a carrier; returns its websocket and the relay's answer."""
    ws = await dial(client, relay.url, "/v1/relay")
    assert await prove(ws, key) == relay.key.public
    await ws.send_bytes(write_admission(asked))
    return ws, read_answer(await ws.receive_bytes())


async def enter(client, relay, key, **how):
    """Returns an admitted carrier."""
    ws, answer = await ask(client, relay, key, relay.admit(**how))
    assert isinstance(answer, Welcome), answer
    return Member(ws, key)


class Inviter:
    """The websocket of an inviter."""

    def __init__(self, ws, relay, key):
        self.ws, self.relay, self.key = ws, relay, key

    async def say(self, message):
        await self.ws.send_bytes(write_room_message(message))

    async def hear(self):
        return read_to_inviter(await self.ws.receive_bytes())

    async def ask(self, more=1, keep=(), word=WORD, licence=b""):
        proof = b""
        if not licence:
            exchange, share = word_share(word, self.relay, self.key)
            await self.say(share)
            proof = exchange.finish((await self.hear()).point).own
        await self.say(OpenRooms(proof, licence, keep, more))
        return await self.hear()


async def invite(client, relay, key=KEYS[0]):
    """Returns an inviter that has proved its key, and asked for nothing yet."""
    ws = await dial(client, relay.url, "/v1/rooms")
    assert await prove(ws, key) == relay.key.public
    return Inviter(ws, relay.key.public, key.public)


async def knock(client, relay, digits):
    """Returns the websocket of a joiner, and the relay's answer."""
    ws = await dial(client, relay.url, f"/v1/room/{digits}")
    return ws, read_to_joiner(await ws.receive_bytes())
