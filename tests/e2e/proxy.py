"""An HTTP proxy as sites have them: CONNECT alone, with a password or without, and perhaps one that ends TLS.

    python -m tests.e2e.proxy HOST:PORT [--password NAME:PASSWORD] [--intercept] [--no-websockets]

It prints "ready", and a line for each question: the status that it answers, and the far end.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.strange_tls import strange_server, trusting_client

if TYPE_CHECKING:
    import pytest

PORT = 3128
_END = b"\r\n\r\n"


@dataclass(frozen=True)
class Manners:
    """What a proxy asks and does."""

    password: str | None = None
    """NAME:PASSWORD; None: it asks for none."""
    intercepts: bool = False
    """Whether it ends TLS with a certificate of its own, and opens its own to the far end."""
    websockets: bool = True
    """Whether it lets websockets through. Only one that intercepts can tell."""
    refuses: bool = False
    """Whether it opens no connection at all."""


class Proxy:
    """Answers one connection after the other."""

    def __init__(self, manners: Manners) -> None:
        self._manners = manners
        self.asked: list[str] = []
        """The far ends that it was asked for."""
        self._mine = strange_server() if manners.intercepts else None
        self._theirs = trusting_client() if manners.intercepts else None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers a CONNECT, and carries bytes until one end is done."""
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(_END)).decode("latin-1")
            method, target, _ = head.split(" ", 2)
            self.asked.append(target)
            status = self._status(method, head)
            print(status, target, flush=True)
            if status == "200 OK":
                await self._carry(target, reader, writer)
            else:
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close".encode() + _END)
                await writer.drain()
        writer.close()

    def _status(self, method: str, head: str) -> str:
        if self._manners.password is not None:
            shown = base64.b64encode(self._manners.password.encode()).decode()
            if f"proxy-authorization: basic {shown}".lower() not in head.lower():
                return '407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="site"'
        if self._manners.refuses:
            return "403 Forbidden"
        return "200 OK" if method == "CONNECT" else "405 Method Not Allowed"

    async def _carry(self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = target.rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port), ssl=self._theirs)
        writer.write(b"HTTP/1.1 200 OK" + _END)
        await writer.drain()
        if self._mine is not None:
            await writer.start_tls(self._mine)
            head = await reader.readuntil(_END)
            if not self._manners.websockets and b"upgrade: websocket" in head.lower():
                print("403", target, flush=True)
                writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close" + _END)
                await writer.drain()
                far_writer.close()
                return
            far_writer.write(head)
        try:
            async with asyncio.TaskGroup() as ways:
                ways.create_task(_pump(reader, far_writer))
                ways.create_task(_pump(far_reader, writer))
        except* OSError:
            writer.transport.abort()
        finally:
            if not far_writer.is_closing():
                far_writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def proxied(
    monkeypatch: pytest.MonkeyPatch, shows: str = "", **manners: Any
) -> AsyncIterator[tuple[str, Proxy]]:
    """Runs a proxy in this loop, which the environment names, with `shows` (NAME:PASSWORD@) before its host.

    Yields its address and itself.
    """
    proxy = Proxy(Manners(**manners))
    serving = set[asyncio.Task[Any]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            await proxy.serve(reader, writer)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    monkeypatch.setenv("HTTPS_PROXY", f"http://{shows}{address}")
    monkeypatch.setenv("NO_PROXY", "")
    try:
        yield address, proxy
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def _serve_forever(host: str, port: int, manners: Manners) -> None:
    async with await asyncio.start_server(Proxy(manners).serve, host, port):
        print("ready", flush=True)
        await asyncio.Event().wait()


def main(argv: Sequence[str]) -> int:
    """Serves until it is killed."""
    parser = argparse.ArgumentParser("tests.e2e.proxy")
    parser.add_argument("endpoint")
    parser.add_argument("--password")
    parser.add_argument("--intercept", action="store_true")
    parser.add_argument("--no-websockets", action="store_true")
    asked = parser.parse_args(argv)
    host, _, port = asked.endpoint.rpartition(":")
    asyncio.run(
        _serve_forever(host, int(port), Manners(asked.password, asked.intercept, not asked.no_websockets))
    )
    return 0
