"""The way to a relay: by proxies, and the one line that says which step failed."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import asynccontextmanager, closing

import pytest
from aiohttp import web

from node.net.relay.client import RelayClient, proxy_for
from node.net.relay.streams import Presence, RelayedStreams
from node.system.errors import UserError
from node.system.streams import KERNEL
from protocol.relay.admission import Refused, Welcome, write_admission
from protocol.wire import handshake
from tests.e2e.proxy import proxied
from tests.patience import ENOUGH_S
from tests.relays import RELAY_KEY, running
from tests.unit.node.links import ONE, OTHER, THIRD, far_side, tls_of, until
from tests.unit.node.net.relay.lines import RelayAtHome, in_roster, roster, where


@pytest.fixture(autouse=True)
def without_proxy(monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def streams_to(endpoint, key=ONE, keys=(ONE, OTHER), warn=print):
    return RelayedStreams(key, roster(*keys), (in_roster(endpoint, keys[0]),), warn=warn)


@asynccontextmanager
async def connected(endpoint, **how):
    streams = streams_to(endpoint, **how)
    async with asyncio.timeout(ENOUGH_S):
        await streams.start()
        try:
            yield streams
        finally:
            await streams.close()


async def first_line(endpoint, **how):
    """The first line that the owner reads, while it goes on trying."""
    said = asyncio.Queue()
    streams = streams_to(endpoint, warn=said.put_nowait, **how)
    starting = asyncio.create_task(streams.start())
    try:
        async with asyncio.timeout(ENOUGH_S):
            return await said.get()
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)


async def test_a_relay_is_reached_by_two_carriers():
    async with running(tls="on") as (relay, _), connected(where(relay)):
        (member,) = relay.relaying.view().members
        assert member.carriers == 2


@pytest.mark.parametrize(
    ("shows", "how"),
    [("", {}), ("ward-c:p%40ss@", {"password": "ward-c:p@ss"}), ("", {"intercepts": True})],
    ids=["open", "password", "intercepting"],
)
async def test_a_relay_is_reached_through_a_proxy(monkeypatch, shows, how):
    async with (
        running(tls="on") as (relay, _),
        proxied(monkeypatch, shows, **how) as (_, proxy),
        connected(where(relay)),
    ):
        assert proxy.asked == [where(relay)] * 2


def test_hosts_that_no_proxy_names_are_reached_directly(monkeypatch):
    assert proxy_for("relay.example") is None
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,.clinic.example")
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example:3128")
    assert proxy_for("relay.example") == "http://proxy.example:3128"
    assert proxy_for("relay.clinic.example") is proxy_for("127.0.0.1") is None


@pytest.mark.parametrize(
    ("how", "shows", "why"),
    [
        (
            {"password": "ward-c:pass"},
            "",
            "set the right one (HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT) and try again",
        ),
        ({"password": "ward-c:pass"}, "ward-c:wrong@", "the proxy asks for a password (407)"),
        ({"refuses": True}, "", "opens no connection (status 403): ask for an exception for 127.0.0.1"),
    ],
)
async def test_a_proxy_that_refuses_is_named(monkeypatch, how, shows, why):
    async with proxied(monkeypatch, shows, **how):
        line = await first_line("127.0.0.1:9")
    assert line.startswith("no way to 127.0.0.1:9: the proxy ")
    assert why in line
    assert "pass" not in line.replace("password", "")


async def test_a_proxy_that_does_not_answer_is_named(monkeypatch):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
    assert await first_line("127.0.0.1:9") == (
        f"no way to 127.0.0.1:9: the proxy 127.0.0.1:{port} does not answer (connection refused): see "
        "whether HTTPS_PROXY is right"
    )
    monkeypatch.setenv("HTTPS_PROXY", "http://[::1")
    assert "HTTPS_PROXY is no address; allowed: http://NAME:PASSWORD@HOST:PORT" in await first_line(
        "a.example:9"
    )


async def test_a_port_where_nobody_listens_is_named_with_the_proxy_that_is_not_set():
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        endpoint = f"127.0.0.1:{taken.getsockname()[1]}"
    assert await first_line(endpoint) == (
        f"no way to {endpoint}: connection refused; HTTPS_PROXY is not set: if this network has a proxy, "
        "set it (HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT) and try again"
    )


async def test_a_name_that_does_not_resolve_is_named():
    line = await first_line("relay.invalid:443")
    assert line.startswith("no way to relay.invalid:443: ")
    assert "HTTPS_PROXY is not set" in line


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (403, "a proxy lets no websocket through (status 403): ask for an exception for 127.0.0.1"),
        (404, "what answers there is no relay (status 404): see whether the address is right"),
    ],
)
async def test_an_answer_that_is_no_websocket_is_named(status, why):
    async def refuse(_):
        return web.Response(status=status)

    async with far_side(web.get("/v1/relay", refuse), ssl=tls_of(OTHER).server) as endpoint:
        assert await first_line(endpoint) == f"no way to {endpoint}: {why}"


async def test_a_port_without_tls_is_named():
    async with far_side() as endpoint:
        assert "TLS fails" in await first_line(endpoint)


async def test_another_machine_in_the_relay_s_place_ends_the_start():
    async with running(key=OTHER, tls="on") as (relay, _):
        with pytest.raises(UserError) as caught:
            async with connected(where(relay)):
                raise AssertionError
    assert str(caught.value) == (
        f"the relay {where(relay)} holds the key {OTHER.public.hex()[:16]}..., not "
        f"{RELAY_KEY.public.hex()[:16]}...: another machine answers there"
    )


async def test_a_relay_that_refuses_the_swarm_ends_the_start():
    async with running(tls="on") as (relay, _):
        with pytest.raises(UserError, match="refuses this swarm: this key is not on the list"):
            async with connected(where(relay), key=THIRD):
                raise AssertionError


def answering(*messages, asked=None):
    """A websocket that runs the relay's handshake, and then says these."""

    async def serve(request):
        ws = web.WebSocketResponse(protocols=("murmuration-relay.1",), timeout=0.1)
        await ws.prepare(request)
        theirs, mine = handshake.read_knock(await ws.receive_bytes()), os.urandom(32)
        await ws.send_bytes(handshake.challenge(RELAY_KEY, theirs, mine, handshake.RELAY))
        await ws.receive_bytes()
        (asked if asked is not None else []).append(await ws.receive_bytes())
        for message in messages:
            await (ws.send_str if isinstance(message, str) else ws.send_bytes)(message)
        await ws.close()
        return ws

    return far_side(web.get("/v1/relay", serve), ssl=tls_of(RELAY_KEY).server)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([], "it has ended the connection, after a connection had opened"),
        (["text"], "what answers is no relay of this version (a message that is no bytes)"),
        ([b"nonsense"], "what answers is no relay of this version ("),
        ([write_admission(Refused("too many carriers now", False))], "too many carriers now"),
    ],
)
async def test_a_relay_that_does_not_keep_to_its_part_is_tried_again(said, why):
    async with answering(*said) as endpoint:
        assert why in await first_line(endpoint)


async def test_a_relay_that_sends_what_is_no_frame_is_left_and_asked_again():
    asked = []
    welcome = write_admission(Welcome(1, 1, 1))
    async with answering(welcome, b"no frame", asked=asked) as endpoint, asyncio.timeout(ENOUGH_S):
        streams = streams_to(endpoint)
        starting = asyncio.create_task(streams.start())
        await until(lambda: len(asked) > 4)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await streams.close()


async def test_the_owner_reads_that_a_relay_is_lost_and_found():
    said, relay = asyncio.Queue(), RelayAtHome()
    await relay.start()
    endpoint = f"127.0.0.1:{relay.address[1]}"
    async with connected(endpoint, warn=said.put_nowait) as streams:
        assert streams.why_away(OTHER.public) is None
        assert streams.presence == {OTHER.public: Presence(None)}  # it was never seen
        await relay.stop()
        assert (await said.get()).startswith(f"no way to {endpoint}: ")
        assert streams.why_away(OTHER.public) == "no relay can be reached from here"
        await relay.start()
        while (line := await said.get()) != f"the relay {endpoint} is reached again":
            assert line.startswith(f"no way to {endpoint}: ")
        assert streams.why_away(OTHER.public) is None
    await relay.stop()


async def test_a_client_that_opened_nothing_closes():
    await RelayClient(KERNEL).close()
    streams = streams_to("127.0.0.1:9")
    assert streams.presence == {}
    await streams.close()
    with pytest.raises(ConnectionError, match="no relay was asked yet"):
        streams.room((OTHER.public, 1))
