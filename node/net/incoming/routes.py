"""The HTTP routes of a node and a tracker besides the peers' frames, which node.net.transport handles.

Each subject provides its routes; `answers` gathers them, and the transport serves them on its one listener:

    await transport.start(listener, answers(health(...), figures.routes, page.routes))

All routes are GET and change nothing. Expensive answers are `Shared`: the node computes them at most a few
times a second, however many clients ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain
from typing import Generic, TypeVar

from aiohttp import web

FRESH_S = 0.25
"""The least time for which an answer is reused."""
DEAR = 10.0
"""An answer is reused for this many times its computing time, so at most a tenth of the time computes it."""
OLDEST_S = 2.0
"""The longest time for which an answer is reused."""

T = TypeVar("T")
Routes = list[web.RouteDef]


def answers(*subjects: Iterable[web.RouteDef]) -> Routes:
    """Returns the routes of all subjects."""
    return list(chain.from_iterable(subjects))


class Shared(Generic[T]):
    """Shares one result of `make` among all callers that ask while it is made or shortly after."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._making: asyncio.Task[T] | None = None
        self._good_until_s = 0.0

    async def get(self) -> T:
        """Returns the last result, or a new one if that is too old. Every waiting caller gets its error."""
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
    """Marks an error as retrieved, so that asyncio does not report it again if no caller waited."""
    if not made.cancelled():
        made.exception()
