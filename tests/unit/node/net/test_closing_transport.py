"""A transport that closes while others connect closes every connection that it has accepted."""

from __future__ import annotations

import asyncio
import gc
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web

from node.net.tls import make_tls
from node.net.transport import Transport
from protocol.crypto.node_key import NodeKey
from tests.unit.node.links import anybody

STEPS = 6
KEY = NodeKey(bytes([1]) * 32)


async def nobody(*_):
    raise AssertionError


def sockets():
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(str(descriptor.readlink()))
    return {name for name in found if name.startswith("socket:")}


async def closes_after(steps, tls):
    """Closes a transport `steps` turns of the loop after somebody connects."""
    listener = socket.create_server(("127.0.0.1", 0))
    endpoint = f"127.0.0.1:{listener.getsockname()[1]}"
    context = make_tls(KEY, "on", endpoint, lambda _: frozenset()) if tls else None
    transport = Transport(
        nobody, nobody, nobody, heavy=False, tls=context, key=KEY, warn=nobody, is_member=anybody
    )
    await transport.start(listener, [])
    with socket.create_connection(listener.getsockname()):
        for _ in range(steps):
            await asyncio.sleep(0)
        await transport.close()
    listener.close()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("steps", range(STEPS))
def test_who_comes_at_the_very_end_is_not_left_to_the_garbage_collector(steps, tls):
    gc.collect()
    before = sockets()
    gc.disable()
    try:
        asyncio.run(closes_after(steps, tls))
        assert sockets() == before
    finally:
        gc.enable()


async def asked(address, request):
    """Returns the first line of the answer to a request."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"{request} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
    line = await reader.readline()
    writer.close()
    return line.decode().strip()


async def test_who_has_left_takes_no_more_links_and_still_answers_other_routes():
    async def page(_):
        return web.Response(text="here")

    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    transport = Transport(
        nobody, nobody, nobody, heavy=False, tls=None, key=KEY, warn=nobody, is_member=anybody
    )
    await transport.start(listener, [web.get("/", page)])
    before = [await asked(address, request) for request in ("GET /v1/link", "POST /v1/bulk", "GET /")]
    await transport.leave()
    after = [await asked(address, request) for request in ("GET /v1/link", "POST /v1/bulk", "GET /")]
    await transport.close()

    assert [line.split()[1] for line in after] == ["503", "503", "200"]
    assert "503" not in " ".join(before)
