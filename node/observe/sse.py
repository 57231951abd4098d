"""Server-sent events for watchers of the page: first the whole view, then its changes.

One look every LOOK_S serves all watchers; without watchers there are no looks. For each watcher the feed
keeps the view that it sent last, and no queue: a slow reader gets fewer steps, and one that does not read is
disconnected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from aiohttp import web

from node.net.aborting import abort
from node.net.incoming.doors import guest_of
from node.net.incoming.routes import Shared
from node.observe.views import View, as_json, changes, document

LOOK_S = 0.25
LAST_LOOK_S = 1.0
"""Time limit for the last look, so that the end of a node does not wait for its page."""
BEAT_S = 5.0
"""The feed sends each watcher something at least this often, so that silence means that the node hangs."""
LISTEN_S = 1.0
"""The interval at which the feed checks whether a watcher has left."""
SLOW_S = 10.0
"""The feed disconnects a watcher that has not read for this long."""
MAX_WATCHERS = 16
HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}

Look = Callable[[], Awaitable[View]]
Now = Callable[[], float]
"""Returns Unix seconds, by the clock of the times in a view."""

log = logging.getLogger("murmuration.page")
log.addHandler(logging.NullHandler())


class Feed:
    """The feed of one node to its watchers."""

    def __init__(self, look: Look, now: Now) -> None:
        self._look = look
        self._now = now
        self._watchers = 0
        self._looking: asyncio.Task[None] | None = None
        self._latest: View | None = None
        self._news = asyncio.Event()
        self._closed = False
        self._look_at_s = 0.0
        self._whole = Shared(self._tell_all)

    async def stream(self, request: web.Request, headers: dict[str, str]) -> web.StreamResponse:
        """Serves one watcher until it leaves or the feed ends. Raises 503 if there are too many watchers."""
        if self._watchers >= MAX_WATCHERS or self._closed:
            raise web.HTTPServiceUnavailable(text="too many watch already\n", headers={"Retry-After": "5"})
        guest = guest_of(request)
        if guest is not None:
            guest.watch()
        async with self._watched():
            response = web.StreamResponse(headers={**headers, **HEADERS})
            with suppress(ConnectionError):
                await response.prepare(request)
                await self._serve(request, response)
        return response

    async def close(self) -> None:
        """Takes a last look for the watchers and ends their streams."""
        if self._looking is not None:
            self._looking.cancel()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._look_once(), LAST_LOOK_S)
        self._closed = True
        self._wake()

    @asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        """Counts a watcher; the first one starts the looks, the last one to leave ends them."""
        self._watchers += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._keep_looking())
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._looking.cancel()
                self._looking = self._latest = None

    async def _keep_looking(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(max(0.0, self._look_at_s - loop.time()))  # even if watchers come and go
            await self._look_once()
            self._look_at_s = loop.time() + LOOK_S

    async def _look_once(self) -> None:
        try:
            view = await self._look()
        except Exception:  # an error in a view never ends a node
            log.exception("the page cannot be made")
            return
        if view != self._latest:
            self._latest = view
            self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _serve(self, request: web.Request, response: web.StreamResponse) -> None:
        sent: View | None = None
        loop = asyncio.get_running_loop()
        heard_at = loop.time()
        while request.transport is not None and not request.transport.is_closing():
            is_last, news, view = self._closed, self._news, self._latest
            text, seen = await self._news_since(sent, view)
            if not text and loop.time() - heard_at >= BEAT_S:
                text = ": \n\n"
            if text:
                await write(request, response, text.encode())
                sent, heard_at = seen, loop.time()
            if sent is not view:  # the shared view was a little older
                continue
            if is_last:
                await write(request, response, _event("end", {"at": self._now()}).encode())
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), LISTEN_S)

    async def _news_since(self, sent: View | None, view: View | None) -> tuple[str, View | None]:
        """Returns the event that updates a watcher from `sent`, and the view that the watcher then has."""
        if view is None or view is sent:
            return "", sent
        if sent is None:
            return await self._whole.get()
        return _event("change", {**changes(sent, view), "at": self._now()}), view

    async def _tell_all(self) -> tuple[str, View | None]:
        """Returns the whole latest view, perhaps with thousands of rounds; new watchers share it."""
        view = self._latest
        if view is None:
            return "", None
        values = {**document(view), "at": self._now()}
        return await asyncio.to_thread(_event, "view", values), view


def _event(name: str, values: dict[str, object]) -> str:
    return f"event: {name}\ndata: {as_json(values)}\n\n"


async def write(request: web.Request, response: web.StreamResponse, content: bytes) -> None:
    """Sends `content`. Raises ConnectionResetError and closes the connection if the watcher does not read."""
    try:
        await asyncio.wait_for(response.write(content), SLOW_S)
    except TimeoutError:
        if request.transport is not None:
            abort(request.transport)
        raise ConnectionResetError("a watcher that does not read") from None
