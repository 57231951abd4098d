"""What a supervisor asks: does the process answer, and can it do what it is for.

/healthz  200 as long as the event loop turns: without an answer the process hangs; in JSON also why no group
          forms, where that is so
/readyz   200 when it takes part, else 503; in JSON what is missing

Neither says anything of data or of other peers' names, so neither asks for a token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from node.runtime.shutdown import Stopping
from node.runtime.snapshot import Inspector
from protocol.swarm.inspection import Contact

STILL_MEETING = "still meeting the others"
Missing = Callable[[], Awaitable[tuple[str, ...]]]
"""What keeps a node from being ready; nothing where it is."""


def health(missing: Missing, waiting: Callable[[], str] = lambda: "") -> list[web.RouteDef]:
    """The two routes. What answers has its listener and its state open: it is served only with both.

    `waiting`: why no group forms, without names, and without any wait; empty where nothing is in the way.
    """

    async def live(_: web.Request) -> web.Response:
        why = waiting()
        return web.json_response({"status": "ok", **({"waiting": why} if why else {})})

    async def ready(_: web.Request) -> web.Response:
        why = await missing()
        return web.json_response({"ready": not why, "why": why}, status=503 if why else 200)

    return [web.get("/healthz", live), web.get("/readyz", ready)]


def missing_unless_ending(asked: asyncio.Event) -> Missing:
    """For a tracker, which is ready from its start until `asked` to end."""

    async def missing() -> tuple[str, ...]:
        return ("told to end",) if asked.is_set() else ()

    return missing


def missing_of(inspector: Inspector, stopping: Stopping) -> Missing:
    """For a node: it is ready when it has met the others, somebody answers, and it is not ending."""

    def seen() -> tuple[str, ...]:
        why = ["told to end"] if stopping.asked else []
        if inspector.node.status.phase == "joining":
            why.append(STILL_MEETING)
        found = inspector.node.known_peers
        if not any(one.contact is Contact.REACHABLE for one in found):
            why.append("neither a peer nor a tracker answers")
        return tuple(why)

    async def missing() -> tuple[str, ...]:
        return await inspector.shell.look(seen)

    return missing
