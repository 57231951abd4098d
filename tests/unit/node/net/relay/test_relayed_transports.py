"""Whole transports whose peers are keys: links and bulk by a relay; tests/box/test_relayed.py has outages."""

from __future__ import annotations

import asyncio

from aiohttp import ClientSession

from node.net.intake import RELAYED_OPEN_S
from node.net.outgoing.link import RELAYED_BULK_S
from node.net.outgoing.stream_connector import StreamConnector
from node.net.relay.streams import Presence
from node.net.versions import subprotocol
from protocol.wire import masked_messages as masked
from protocol.wire.endpoints import of_key
from protocol.wire.limits import VERSION
from tests.unit.node.links import ONE, OTHER, THIRD, bulk, small, until
from tests.unit.node.net.relay.lines import swarm


def kinds(got):
    """Small messages, and bulk."""
    return (
        [each for each in got if not isinstance(each, masked.Masked)],
        [each for each in got if isinstance(each, masked.Masked)],
    )


async def test_small_messages_and_bulk_go_to_a_key_by_a_relay():
    async with swarm(ONE, OTHER, THIRD) as (relay, (here, there, third)):
        here.transport.send(there.endpoint, (bulk(number) for number in range(5)))
        here.transport.send(there.endpoint, [small(number) for number in range(20)])
        there.transport.send(here.endpoint, [small(99)])
        third.transport.send(here.endpoint, [bulk(7)])
        messages, frames = kinds(await there.take(25))
        assert messages == [small(number) for number in range(20)]
        assert frames == [bulk(number) for number in range(5)]
        messages, frames = kinds(await here.take(2))
        assert messages == [small(99)]
        assert frames == [bulk(7)]
        for member in (here, there, third):
            assert member.lost.empty()
            assert not member.dropped
        assert there.presence_of(here).relay == relay
        await third.streams.close()
        await until(lambda: here.presence_of(third).relay is None)
        away = here.presence_of(third)
        assert away == Presence(None, away.since, "it closed its connection to the relay")
        assert 0 < away.since <= asyncio.get_running_loop().time()
        client = here.links[there.endpoint]._bulk_client
        assert (client._timeout_s, client._connect_timeout_s) == (RELAYED_BULK_S, RELAYED_OPEN_S)


async def test_a_member_that_is_away_is_no_refused_connection():
    async with swarm(ONE, OTHER) as (_, (here, there)):
        await there.transport.close()
        await there.streams.close()
        here.transport.send(there.endpoint, [small(1)])
        endpoint, why = await here.lost.get()
        assert endpoint == there.endpoint
        assert why == "it is away: it has closed its connection to the relay"
        assert here.streams.why_away(there.key.public) == "it closed its connection to the relay"
        assert here.presence_of(there) == Presence(None)  # it was never seen


async def test_nobody_without_a_place_on_the_list_is_dialled(caplog):
    async with swarm(ONE, OTHER) as (_, (here, _)):
        here.transport.send(of_key(THIRD.public), [small(1)])
        assert await here.lost.get() == (of_key(THIRD.public), "it is no member of this swarm")
    assert not caplog.records


async def test_a_relay_brings_links_bulk_and_health_to_a_node_and_not_its_page():
    async with swarm(ONE, OTHER) as (_, (here, there)):
        tls = here.transport.tls.dialling(there.endpoint)
        async with ClientSession(connector=StreamConnector(here.streams)) as client:
            for path in ("/", "/metrics", "/v1/stream", "/healthz/"):
                async with client.get(f"https://{there.endpoint}{path}", ssl=tls) as answer:
                    assert answer.status == 404
            async with client.ws_connect(
                f"https://{there.endpoint}/v1/link", ssl=tls, protocols=(subprotocol(VERSION),)
            ):
                rooms = there.transport._server.doors.counts
                assert (rooms["relayed"], rooms["linking"]) == (1, 0)  # its proof may take as long as its TLS
        assert there.dropped["a relayed request for the page"] == 4
        async with ClientSession() as client:
            port = there.listener.getsockname()[1]
            async with client.get(f"http://127.0.0.1:{port}/metrics") as answer:
                assert answer.status == 200
