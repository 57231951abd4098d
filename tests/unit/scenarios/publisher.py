"""A publisher on loopback with many kinds of faulty answers; nothing leaves this machine."""

import asyncio
import gzip
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from aiohttp import web
from rich.console import Console

from node.system.errors import UserError
from scenarios.data.downloads import fetch
from scenarios.data.images import read_labels
from scenarios.data.published import Digest, Published, PublishedFile
from tests.e2e.processes import free_endpoint

LABELS = np.random.default_rng(5).integers(0, 10, 300_000, dtype=np.uint8)
CONTENT = gzip.compress(bytes((0, 0, 8, 1)) + len(LABELS).to_bytes(4, "big") + LABELS.tobytes(), mtime=0)
NAME = "labels.gz"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FILE = PublishedFile(NAME, len(CONTENT), Digest("sha256", SHA256, "published"), read_labels)
UNSUMMED = replace(FILE, digest=None)
UNSIZED = replace(FILE, size_bytes=None)
UNKNOWN = replace(UNSUMMED, size_bytes=None)

PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
"""Environment variables that would lead away from loopback."""


@dataclass
class Publisher:
    """A server with one file. `cuts`: after how many bytes each of the first answers breaks off.

    `named`: what files of other names contain.
    """

    content: bytes = CONTENT
    named: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    ranges: bool = True
    status: int = 200
    announced: bool = True
    coding: str | None = None
    shift: int = 0
    """How far the answer to a range request begins from the requested byte."""
    silent: asyncio.Event = field(default_factory=asyncio.Event)
    """What an answer that was cut waits for before it closes."""
    sent: asyncio.Event = field(default_factory=asyncio.Event)
    """That the first answer that breaks off is on its way."""
    asked: list[str | None] = field(default_factory=list)
    encodings: set[str | None] = field(default_factory=set)
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.headers.get("Range"))
        self.encodings.add(request.headers.get("Accept-Encoding"))
        if self.status != 200:
            return web.Response(status=self.status)
        content = self.named.get(request.match_info["name"], self.content)
        start = self._start(request)
        if start >= len(content):
            return web.Response(status=416)
        body = content[start + self.shift if start else 0 :]
        response = web.StreamResponse(status=206 if start else 200)
        if start:
            end = len(content)
            response.headers["Content-Range"] = f"bytes {start + self.shift}-{end - 1}/{end}"
        if self.coding is not None:
            response.headers["Content-Encoding"] = self.coding
        if self.announced:
            response.content_length = len(body)
        return await self._send(request, response, body)

    def _start(self, request: web.Request) -> int:
        asked = request.headers.get("Range")
        return int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.ranges else 0

    async def _send(
        self, request: web.Request, response: web.StreamResponse, body: bytes
    ) -> web.StreamResponse:
        cut = self.cuts.pop(0) if self.cuts else None
        await response.prepare(request)
        await response.write(body[:cut])
        if cut is not None:
            self.sent.set()
            await self.silent.wait()
            assert request.transport is not None
            request.transport.close()
        return response

    def __post_init__(self) -> None:
        self.silent.set()


@asynccontextmanager
async def publishing(*publishers: Publisher) -> AsyncIterator[Published]:
    """Publishes the file at all of these paths."""
    runners = []
    for publisher in publishers:
        app = web.Application()
        app.router.add_get("/files/{name}", publisher.answer)
        runner = web.AppRunner(app, handler_cancellation=False)
        await runner.setup()
        runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        publisher.url = f"http://127.0.0.1:{runner.addresses[0][1]}/files/"
    try:
        yield Published("set", tuple(publisher.url for publisher in publishers), (FILE,), ())
    finally:
        for runner in runners:
            await runner.cleanup()


def nobody_there() -> str:
    """Returns an address on loopback that refuses connections."""
    return f"http://{free_endpoint()}/files/"


async def get(published: Published, folder: Path) -> str:
    """Fetches, and returns the messages."""
    said = StringIO()
    await fetch(published, folder, Console(file=said, force_terminal=False, width=80))
    return said.getvalue()


async def refusal(published: Published, folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        await get(published, folder)
    assert caught.value.status == 1
    assert "\n" not in str(caught.value)
    return str(caught.value)


def there(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "set").iterdir()}


def put(folder: Path, name: str, content: bytes) -> None:
    (folder / "set").mkdir(exist_ok=True)
    (folder / "set" / name).write_bytes(content)
