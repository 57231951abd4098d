"""A connection is ended at once, whatever was done to it before."""

import asyncio
from contextlib import suppress

import pytest

from node.net.aborting import abort
from tests.unit.node.links import ONE, tls_of

TLS = tls_of(ONE)


@pytest.mark.parametrize("closed", [0, 1, 2], ids="closed {} times".format)
@pytest.mark.parametrize("tls", [None, TLS], ids=["plain", "TLS"])
async def test_a_connection_that_was_closed_before(tls, closed: int) -> None:
    """CPython 3.11.2 has no protocol any more in a TLS transport that was closed twice."""
    ended = asyncio.Event()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"here")
        with suppress(ConnectionError):
            assert await reader.read() == b""
        ended.set()
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0, ssl=tls and tls.server)
    where = server.sockets[0].getsockname()
    reader, writer = await asyncio.open_connection(*where, ssl=tls and tls.client)
    assert await reader.readexactly(4) == b"here"
    for _ in range(closed):
        writer.transport.close()
    abort(writer.transport)
    async with server, asyncio.timeout(60):
        await ended.wait()
