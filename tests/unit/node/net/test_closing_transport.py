"""A transport that closes while others connect closes every connection that it has accepted."""

import asyncio
import gc
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web

from tests.unit.node.links import ONE, deaf, started, tls_of

STEPS = 6


def sockets():
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(str(descriptor.readlink()))
    return {name for name in found if name.startswith("socket:")}


async def closes_after(steps, tls):
    """Closes a transport `steps` turns of the loop after somebody connects."""
    transport = deaf(tls_of(ONE) if tls else None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        await transport.start(listener, [])
        with socket.create_connection(listener.getsockname()):
            for _ in range(steps):
                await asyncio.sleep(0)
            await transport.close()


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


async def test_who_has_left_takes_no_more_links_and_still_answers_other_routes():
    async def page(_):
        return web.Response(text="here")

    async def statuses():
        found = []
        for request in ("GET /v1/link", "POST /v1/bulk", "GET /"):
            reader, writer = await asyncio.open_connection(*endpoint.split(":"))
            writer.write(f"{request} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
            found.append((await reader.readline()).split()[1].decode())
            writer.close()
        return found

    transport = deaf()
    async with started(transport, [web.get("/", page)]) as endpoint:
        assert "503" not in await statuses()
        await transport.leave()
        assert await statuses() == ["503", "503", "200"]
