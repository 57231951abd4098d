"""Health checks for a supervisor: whether the process responds, and whether the node can take part.

/healthz  200 as long as the event loop runs; a process without an answer hangs. The JSON also says why no
          group forms, if none does, and how many peers are left out because they withhold
/readyz   200 if the node takes part, else 503; the JSON says what is missing

Neither reveals data or names of other peers, so neither requires a token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from node.runtime.record.ending import Stopping
from node.runtime.snapshot import Inspector
from protocol.swarm.inspection import Contact

STILL_MEETING = "still meeting the others"
Missing = Callable[[], Awaitable[tuple[str, ...]]]
"""Returns what keeps a node from being ready; empty if it is ready."""


def health(missing: Missing, troubles: Callable[[], Mapping[str, str]] = dict) -> list[web.RouteDef]:
    """Returns the two routes. A process that answers them has opened its listener and its state.

    `troubles` says what holds the swarm up, without names, by kind. It must not block.
    """

    async def live(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok", **troubles()})

    async def ready(_: web.Request) -> web.Response:
        why = await missing()
        return web.json_response({"ready": not why, "why": why}, status=503 if why else 200)

    return [web.get("/healthz", live), web.get("/readyz", ready)]


def missing_unless_ending(asked: asyncio.Event) -> Missing:
    """Returns the check for a tracker, which is ready from its start until it is `asked` to end."""

    async def missing() -> tuple[str, ...]:
        return ("told to end",) if asked.is_set() else ()

    return missing


def missing_of(inspector: Inspector, stopping: Stopping) -> Missing:
    """Returns the check for a node: ready if it has met the others, a peer answers, and it is not ending."""

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
