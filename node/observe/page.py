"""The read-only page that a node and a tracker serve to their owner.

/            the page, the same for everybody, without anything about this node
/page/NAME   its parts
/v1/status   the contents of the page as JSON: for the owner (node.observe.access)
/v1/events   the same, followed by changes, as server-sent events: for the owner
/v1/own      what the owner's rows show, where that is secret: for the owner on this machine alone
/v1/model    the common model as a safetensors file: for the owner
"""

from __future__ import annotations

import asyncio
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Protocol

from aiohttp import web

from node.net.incoming.routes import Shared
from node.observe.access import Access
from node.observe.download import send_file
from node.observe.sse import Feed
from node.observe.views import NodeView, View, as_json, document
from node.runtime.record.own_figures import OwnBook
from node.runtime.snapshot import left_s

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
FRAME, FRONT = "frame.html", "page.html"
"""What all pages share, and the own parts of a node's page."""
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
PARTS = (
    *("tokens.css", "page.css", "icon.svg"),
    *(
        "page.js",
        "node.js",
        "tracker.js",
        "comparison.js",
        "stream.js",
        "charts.js",
        "rounds.js",
        "own.js",
        "curves.js",
    ),
    *("elements.js", "glossary.js", "relay.js", "words.js"),
    *("uPlot.iife.min.js", "uPlot.min.css"),
)
"""The parts that the page may request; nothing else in the package is served."""


_NAME = re.compile(rb"<!-- (\w+) -->\n")
_PART = re.compile(_NAME.pattern + rb"(.*?)(?=<!-- \w+ -->\n|\Z)", re.DOTALL)


class ViewSource(Protocol):
    """The source of a page's views."""

    ended: bool

    async def view(self) -> View:
        """Returns the current view."""

    def now(self) -> float:
        """Returns Unix seconds, by the clock of the times in a view."""


class Page:
    """One node's page: its routes, and the feed behind them."""

    def __init__(
        self, source: ViewSource, access: Access, model: Path | None = None, own: OwnBook | None = None
    ) -> None:
        """`model` is the file of the common model, which need not exist yet; None: there is none to serve.

        `own` keeps the figures of the owner's rows; None: nobody keeps them.
        """
        self._secret = own
        self._source = source
        self._access = access
        self._model = model
        self._described = Shared(self._describe)
        self._feed = Feed(source.view, source.now)

    @property
    def routes(self) -> list[web.RouteDef]:
        """The page's routes, all read-only."""
        return [
            web.get("/", self._front),
            web.get("/page/{name}", self._part),
            web.get("/v1/status", self._status),
            web.get("/v1/events", self._events),
            web.get("/v1/own", self._own),
            web.get("/v1/model", self._download),
        ]

    def tell_end(self) -> None:
        """Shows from now on that the run is over; the page goes on."""
        self._source.ended = True

    async def close(self) -> None:
        """Ends the page with the run: sends its watchers a last view and an end event."""
        self._source.ended = True
        await self._feed.close()

    async def _front(self, request: web.Request) -> web.Response:
        self._access.check_address(request)
        return _asset(FRONT)

    async def _part(self, request: web.Request) -> web.Response:
        self._access.check_address(request)
        name = request.match_info["name"]
        if name not in PARTS:
            raise web.HTTPNotFound
        return _asset(name)

    async def _status(self, request: web.Request) -> web.Response:
        self._access.check(request)
        headers = {**HEADERS, "Cache-Control": "no-store"}
        body = await self._described.get()
        return web.Response(body=body, content_type="application/json", charset="utf-8", headers=headers)

    async def _own(self, request: web.Request) -> web.Response:
        """Tells the owner, on this machine alone, what no view holds."""
        self._access.check_here(request)
        if self._secret is None:
            raise web.HTTPNotFound
        body = as_json(document(self._secret.figures))
        headers = {**HEADERS, "Cache-Control": "no-store"}
        return web.Response(text=body, content_type="application/json", headers=headers)

    async def _describe(self) -> bytes:
        """Returns the status, which all requests within a moment share."""
        view = await self._source.view()
        return await asyncio.to_thread(_status_body, view, self._source.now())

    async def _download(self, request: web.Request) -> web.StreamResponse:
        self._access.check(request)
        if self._model is None:
            raise web.HTTPNotFound
        named = {"Content-Disposition": f'attachment; filename="{self._model.name}"'}
        return await send_file(request, self._model, {**HEADERS, "Cache-Control": "no-store", **named})

    async def _events(self, request: web.Request) -> web.StreamResponse:
        self._access.check(request)
        return await self._feed.stream(request, HEADERS)


def _status_body(view: View, now: float) -> bytes:
    left = {"left_s": left_s(view.until, now)} if isinstance(view, NodeView) else {}
    return as_json({**document(view), **left, "at": now}).encode()


def _asset(name: str) -> web.Response:
    kind = KINDS[name.rpartition(".")[2]]
    headers = {**HEADERS, "Cache-Control": "no-cache", "Content-Type": f"{kind}; charset=utf-8"}
    return web.Response(body=asset(name), headers=headers)


@cache
def asset(name: str) -> bytes:
    """Returns the content of the page itself, FRONT, or of one of its PARTS."""
    content = _stored(name)
    return framed(content) if name == FRONT else content


def framed(parts: bytes) -> bytes:
    """Returns a whole page: the frame, with each part in the place of its name, `<!-- NAME -->`."""
    own = {found[1]: found[2] for found in _PART.finditer(parts)}
    return _NAME.sub(lambda found: own[found[1]], _stored(FRAME))


def _stored(name: str) -> bytes:
    return resources.files("node").joinpath("assets", name).read_bytes()
