"""Whole transports whose peers are keys: links and bulk by a relay, and what its outages cost."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import ClientSession, web

from node.net.relay.streams import RelayedStreams
from node.net.stream_connector import StreamConnector
from node.net.tls import make_tls
from node.net.transport import Callbacks, Transport
from node.system.system import System
from protocol.wire import masked_messages as masked
from protocol.wire.endpoints import of_key
from tests.patience import ENOUGH_S
from tests.unit.node.links import ONE, OTHER, THIRD, End, anybody, bulk, small, until
from tests.unit.node.net.relay.relays import TestRelay, roster


class Member(End):
    """A transport whose endpoint is its key."""

    def __init__(self, key, relays, keys):
        super().__init__(key)
        self.streams = RelayedStreams(key, roster(*keys), tuple(relay.relay(keys[0]) for relay in relays))
        self.endpoint = of_key(key.public)
        tls = make_tls(key, "auto", self.endpoint, lambda _: frozenset())
        told = (self._receive, self._unreachable, self._reconnected, self.warnings.append)
        system = System(streams=self.streams)
        self.transport = Transport(Callbacks(*told, anybody), False, tls, key, system=system)


async def shown(_):
    return web.Response()


@asynccontextmanager
async def swarm(*keys, relays=1):
    """Relays and members of one swarm, connected."""
    there = [TestRelay() for _ in range(relays)]
    async with AsyncExitStack() as stack, asyncio.timeout(ENOUGH_S):
        for relay in there:
            await relay.start()
            stack.push_async_callback(relay.stop)
        members = [Member(key, there, keys) for key in keys]
        for member in members:
            await member.streams.start()
            stack.push_async_callback(member.streams.close)
            await member.transport.start(
                member.listener, [web.get("/shown", shown), web.get("/metrics", shown)]
            )
            stack.callback(member.listener.close)
            stack.push_async_callback(member.transport.close)
        yield there, members


def kinds(got):
    return (
        [each for each in got if not isinstance(each, masked.Masked)],
        [each for each in got if isinstance(each, masked.Masked)],
    )


async def test_small_messages_and_bulk_go_to_a_key_by_a_relay():
    async with swarm(ONE, OTHER) as (_, (here, there)):
        here.transport.send(there.endpoint, (bulk(number) for number in range(5)))
        here.transport.send(there.endpoint, [small(number) for number in range(20)])
        there.transport.send(here.endpoint, [small(99)])
        messages, frames = kinds(await there.take(25))
        assert messages == [small(number) for number in range(20)]
        assert frames == [bulk(number) for number in range(5)]
        assert await here.take(1) == [small(99)]
        assert here.lost.empty()
        assert there.lost.empty()


async def test_bulk_and_messages_outlive_cut_carriers_and_a_relay_that_restarts():
    async with swarm(ONE, OTHER) as ((relay,), (here, there)):
        here.transport.send(there.endpoint, (bulk(number) for number in range(20)))
        for number in range(40):
            here.transport.send(there.endpoint, [small(number)])
            there.transport.send(here.endpoint, [small(number)])
        got = await there.take(5)
        relay.cut_member(ONE.public)
        got += await there.take(10)
        relay.cut_member(OTHER.public)
        got += await there.take(10)
        await relay.stop()
        await relay.start()
        messages, frames = kinds(got + await there.take(35))
        assert messages == await here.take(40) == [small(number) for number in range(40)]
        assert frames == [bulk(number) for number in range(20)]
        for member in (here, there):
            assert member.lost.empty()
            assert member.again.empty()
            assert not member.dropped


async def test_the_second_relay_carries_on_when_the_first_is_gone():
    async with swarm(ONE, OTHER, relays=2) as ((first, _), (here, there)):
        await until(lambda: here.streams.presence[OTHER.public].relay == first.endpoint)
        here.transport.send(there.endpoint, (bulk(number) for number in range(20)))
        got = await there.take(5)
        await first.stop()
        assert got + await there.take(15) == [bulk(number) for number in range(20)]
        assert here.lost.empty()
        assert here.streams.presence[OTHER.public].relay != first.endpoint


async def test_frames_that_a_relay_loses_are_sent_again():
    async with swarm(ONE, OTHER) as ((relay,), (here, there)):
        seen = itertools.count(1)
        relay.loses = lambda message: next(seen) % 50 == 0
        here.transport.send(there.endpoint, (bulk(number) for number in range(10)))
        assert await there.take(10) == [bulk(number) for number in range(10)]


async def test_a_member_that_is_away_is_no_refused_connection():
    async with swarm(ONE, OTHER) as (_, (here, there)):
        await there.transport.close()
        await there.streams.close()
        here.transport.send(there.endpoint, [small(1)])
        endpoint, why = await here.lost.get()
        assert endpoint == there.endpoint
        assert why == "it is away: it has closed its connection to the relay"


async def test_nobody_without_a_place_on_the_list_is_dialled():
    async with swarm(ONE, OTHER) as (_, (here, _)):
        here.transport.send(of_key(THIRD.public), [small(1)])
        assert await here.lost.get() == (of_key(THIRD.public), "it is no member of this swarm")


async def test_a_relay_shows_a_member_links_and_health_but_no_page():
    async with swarm(ONE, OTHER) as (_, (here, there)):
        there_tls = here.transport.tls.dialling(there.endpoint)
        async with ClientSession(connector=StreamConnector(here.streams)) as client:
            for path in ("/", "/metrics", "/v1/stream", "/healthz/"):
                async with client.get(f"https://{there.endpoint}{path}", ssl=there_tls) as answer:
                    assert answer.status == 404
        async with ClientSession() as client:
            port = there.listener.getsockname()[1]
            async with client.get(f"http://127.0.0.1:{port}/shown") as answer:
                assert answer.status == 200
        assert there.dropped["a relayed request for the page"] == 4
