"""What a node and a tracker answer over HTTP besides the peers' frames, which node.net.transport takes.

Each subject gives its routes; `answers` gathers them, and the transport serves them on its one listener:

    await transport.start(listener, answers(health(...), figures.routes, page.routes))

None of them changes anything: GET alone. What is dear to make is `Shared`: made a few times a second at most,
however many ask.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain
from typing import Generic, TypeVar

from aiohttp import web

FRESH_S = 0.25
"""An answer is reused for so long, or for longer if it was dear."""
DEAR = 10.0
"""An answer is reused for so many times as long as it took: making them takes a tenth of the time at most."""
OLDEST_S = 2.0
"""But for no longer than this."""

T = TypeVar("T")
Status = Callable[[], dict[str, object]]
Routes = list[web.RouteDef]


def answers(*subjects: Iterable[web.RouteDef]) -> Routes:
    """The routes of all subjects."""
    return list(chain.from_iterable(subjects))


def asked(status: Status) -> Routes:
    """/v1/status: what is going on, as JSON."""

    async def made() -> str:
        return json.dumps(status())

    shared = Shared(made)

    async def describe(_: web.Request) -> web.Response:
        return web.json_response(text=await shared.get())

    return [web.get("/v1/status", describe)]


class Shared(Generic[T]):
    """What `make` makes, one at a time, for all who ask meanwhile and for a moment after."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._making: asyncio.Task[T] | None = None
        self._good_until_s = 0.0

    async def get(self) -> T:
        """The last one, or a new one where that is too old. All who wait for it are told what goes wrong."""
        made = self._making
        if made is None or (made.done() and self._is_over(made)):
            made = self._making = asyncio.create_task(self._made())
            made.add_done_callback(_looked_at)
        return await asyncio.shield(made)

    def _is_over(self, made: asyncio.Task[T]) -> bool:
        failed = made.cancelled() or made.exception() is not None
        return failed or asyncio.get_running_loop().time() >= self._good_until_s

    async def _made(self) -> T:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        made = await self._make()
        now_s = loop.time()
        self._good_until_s = now_s + min(max(FRESH_S, DEAR * (now_s - begun_s)), OLDEST_S)
        return made


def _looked_at(made: asyncio.Task[T]) -> None:
    """An error is known to whoever waited; that nobody did is no error of its own."""
    if not made.cancelled():
        made.exception()
