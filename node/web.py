"""What a node and a tracker answer over HTTP besides the peers' frames, which node.transport takes.

Each subject gives its routes; `answers` gathers them, and the transport serves them on its one listener:

    await transport.start(listener, answers(health(...), figures.routes, page.routes))

None of them changes anything: GET alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from aiohttp import web

Status = Callable[[], dict[str, object]]
Routes = list[web.RouteDef]


def answers(*subjects: Iterable[web.RouteDef]) -> Routes:
    """The routes of all subjects."""
    return list(chain.from_iterable(subjects))


def asked(status: Status) -> Routes:
    """/v1/status: what is going on, as JSON."""

    async def describe(_: web.Request) -> web.Response:
        return web.json_response(status())

    return [web.get("/v1/status", describe)]
