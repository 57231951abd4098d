"""Lines between members and a relay that can be cut, and the swarm of members that uses them."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from aiohttp import web

from node.net.relay.streams import RelayedStreams
from node.net.tls import make_tls
from node.net.transport import Callbacks, Transport
from node.system.system import System
from protocol.relay.admission import Relay as RelayOfRoster
from protocol.relay.admission import sign_members
from protocol.wire.endpoints import of_key
from tests.patience import ENOUGH_S
from tests.relays import RELAY_KEY, SWARM, WORD, Relay
from tests.unit.node.links import End, anybody


class Line:
    """Carries TCP connections from a port of its own to another; a cut ends all of them."""

    def __init__(self):
        self.to = None
        self._writers = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.endpoint = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0

    async def start(self):
        self._server = await asyncio.start_server(self._carry, sock=self._listener)

    def cut(self):
        for writer in self._writers:
            writer.transport.abort()

    async def close(self):
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    async def _carry(self, reader, writer):
        self.connections += 1
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(*self.to)
            self._writers |= {writer, far_writer}
            try:
                await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
            finally:
                self._writers -= {writer, far_writer}
                far_writer.close()
        writer.close()


async def _pump(reader, writer):
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


class RelayAtHome:
    """A relay that always has the same port: it may stop, and start again."""

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as sock:
            self.address = sock.getsockname()

    async def start(self, key=RELAY_KEY):
        self._listener = socket.create_server(self.address, backlog=64)
        self.relay = Relay(key=key, tls="on")
        await self.relay.start(self._listener)

    async def stop(self):
        await self.relay.stop()
        self._listener.close()


def in_roster(endpoint, inviter, word=WORD):
    """A relay as the roster names it."""
    licence = Relay().licences.give(inviter.public)
    return RelayOfRoster(endpoint, RELAY_KEY.public, licence)


def roster(*keys):
    """The members, signed by the first."""
    return sign_members(keys[0], SWARM, tuple(key.public for key in keys))


class Member(End):
    """A transport whose endpoint is its key, with a line of its own to each relay."""

    def __init__(self, key, keys, relays):
        super().__init__(key)
        self.lines = [Line() for _ in relays]
        for line, relay in zip(self.lines, relays, strict=True):
            line.to = relay.address
        named = tuple(in_roster(line.endpoint, keys[0]) for line in self.lines)
        self.streams = RelayedStreams(key, roster(*keys), named, warn=self.warnings.append)
        self.endpoint = of_key(key.public)
        tls = make_tls(key, "auto", self.endpoint, lambda _: frozenset())
        told = (self._receive, self._unreachable, self._reconnected, self.warnings.append)
        system = System(streams=self.streams)
        self.transport = Transport(Callbacks(*told, anybody), False, tls, key, system=system)

    def presence_of(self, other):
        return self.streams.presence[other.key.public]


async def shown(_):
    return web.Response()


@asynccontextmanager
async def swarm(*keys, relays=1):
    """Relays and members of one swarm, connected."""
    there = [RelayAtHome() for _ in range(relays)]
    async with AsyncExitStack() as stack, asyncio.timeout(ENOUGH_S):
        for relay in there:
            await relay.start()
            stack.push_async_callback(relay.stop)
        members = [Member(key, keys, there) for key in keys]
        for member in members:
            for line in member.lines:
                await line.start()
                stack.push_async_callback(line.close)
            await member.streams.start()
            stack.push_async_callback(member.streams.close)
            await member.transport.start(member.listener, [web.get("/metrics", shown)])
            stack.callback(member.listener.close)
            stack.push_async_callback(member.transport.close)
        yield there, members
