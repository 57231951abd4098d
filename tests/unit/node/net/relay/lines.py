"""Members whose peers are keys, and the relay between them, on real sockets."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from node.net.relay.streams import RelayedStreams
from node.net.tls import make_tls
from node.net.transport import Callbacks, Transport
from node.system.system import System
from protocol.relay.admission import Relay as RelayOfRoster
from protocol.relay.admission import sign_members
from protocol.wire.endpoints import of_key
from tests.relays import RELAY_KEY, SWARM, WORD, Relay, running
from tests.unit.node.links import End, anybody


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


def where(relay):
    """Returns the address of a running relay."""
    return relay.url.partition("://")[2]


def in_roster(endpoint, inviter, word=WORD):
    """A relay as the roster names it."""
    licence = Relay().licences.give(inviter.public)
    return RelayOfRoster(endpoint, RELAY_KEY.public, licence)


def roster(*keys):
    """The members, signed by the first."""
    return sign_members(keys[0], SWARM, tuple(key.public for key in keys))


class Member(End):
    """A transport whose endpoint is its key, and its streams by relays."""

    def __init__(self, key, credentials, relays):
        super().__init__(key)
        self.streams = RelayedStreams(key, credentials, relays, warn=self.warnings.append)
        self.endpoint = of_key(key.public)
        tls = make_tls(key, "auto", self.endpoint, lambda _: frozenset())
        told = (self._receive, self._unreachable, self._reconnected, self.warnings.append)
        system = System(streams=self.streams)
        self.transport = Transport(Callbacks(*told, anybody), False, tls, key, system=system)

    def presence_of(self, other):
        return self.streams.presence[other.key.public]


@asynccontextmanager
async def connected(member, *routes):
    """Runs a member, which serves these routes beside its own."""
    async with AsyncExitStack() as stack:
        stack.callback(member.listener.close)
        await member.streams.start()
        stack.push_async_callback(member.streams.close)
        await member.transport.start(member.listener, [*routes])
        stack.push_async_callback(member.transport.close)
        yield member


async def shown(_):
    return web.Response()


@asynccontextmanager
async def swarm(*keys):
    """Yields a relay's address and the members of one swarm, connected to it."""
    async with running(tls="on") as (relay, _), AsyncExitStack() as stack:
        named = (in_roster(where(relay), keys[0]),)
        members = [Member(key, roster(*keys), named) for key in keys]
        for member in members:
            await stack.enter_async_context(connected(member, web.get("/metrics", shown)))
        yield where(relay), members
