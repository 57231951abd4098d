"""HTTP proxies for tests: CONNECT, with a password or without, and one that intercepts TLS."""

from __future__ import annotations

import asyncio
import base64
import ssl
from contextlib import asynccontextmanager, suppress

from tests.unit.node.links import OTHER, tls_of


class Proxy:
    """Answers CONNECT by a status, or carries. `wants`: NAME:PASSWORD; `asked`: the hosts asked for."""

    def __init__(self, wants=None, status=None, intercepts=False):
        self._wants, self._status, self._intercepts = wants, status, intercepts
        self.asked = []

    async def serve(self, reader, writer):
        with suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, host, _ = head.split("\r\n")[0].split()
            assert method == "CONNECT"
            self.asked.append(host)
            status = self._status
            if self._wants is not None:
                shown = base64.b64encode(self._wants.encode()).decode()
                status = None if f"Basic {shown}" in head else 407
            writer.write(f"HTTP/1.1 {status or 200} so\r\n\r\n".encode())
            await writer.drain()
            if status is None:
                await self._carry(host, reader, writer)
        writer.close()

    async def _carry(self, host, reader, writer):
        name, port = host.split(":")
        tls = None
        if self._intercepts:
            await writer.start_tls(tls_of(OTHER).server)
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        far_reader, far_writer = await asyncio.open_connection(name, int(port), ssl=tls)
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))


async def _pump(reader, writer):
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def proxied(monkeypatch, shows="", **how):
    """Runs a proxy, which the environment names, with `shows` before its host."""
    proxy = Proxy(**how)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    monkeypatch.setenv("HTTPS_PROXY", f"http://{shows}127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield proxy
    finally:
        server.close()
