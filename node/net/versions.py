"""The protocol versions of the two ends of a link, and the messages about a difference.

A dialler requests a websocket with a subprotocol whose name holds the version (RFC 6455, section 1.9). A
request for another version gets the answer 426, with this node's version in a header, and no upgrade.

Only what an endpoint answers to this node's own request is held against the peer there: anybody can claim a
version in a request.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from protocol.swarm.meeting.discovery import NEWER_VERSION, OLDER_VERSION, OTHER_VERSION
from protocol.wire.limits import VERSION

UPGRADE_REQUIRED = 426
OTHER = "a link of another version of the protocol"
HEADER = "Murmuration-Version"
UNNAMED = 0
"""Stands for the early versions, whose links name none."""
_ASKED = re.compile(r"murmuration\.([0-9]{1,6})")
_NUMBER = re.compile(r"[0-9]{1,6}")
_MOST_ADDRESSES = 32
_ALL = "upgrade all nodes of the swarm together"


class OtherVersion(ConnectionError):
    """The far end speaks another version of the protocol."""


def subprotocol(version: int) -> str:
    """Returns the name of a link's subprotocol in a version."""
    return f"murmuration.{version}"


SUBPROTOCOL = subprotocol(VERSION)


def of_answer(headers: Mapping[str, str]) -> int | None:
    """Returns the version that an acceptor stated when it refused a link (426); None if it stated none."""
    said = headers.get(HEADER, "")
    return int(said) if _NUMBER.fullmatch(said) else None


def of_request(request: web.BaseRequest, mine: int) -> int:
    """Returns the version that a dialler asks for; `mine`, if that is among several."""
    asked = [name.strip() for name in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    versions = [int(match[1]) for name in asked if (match := _ASKED.fullmatch(name))]
    return mine if mine in versions else next(iter(versions), UNNAMED)


def difference(theirs: int | None, mine: int) -> str:
    """Returns what is told of an end that speaks `theirs`, with what to do; None: it did not say which."""
    if theirs is None or theirs == mine:
        return f"{OTHER_VERSION} (this node: protocol {mine}): {_ALL}"
    if theirs == UNNAMED:
        return f"{OLDER_VERSION} (this node: protocol {mine}): {_ALL}"
    both = f"(protocol {theirs}, this node {mine})"
    if theirs < mine:
        return f"{OLDER_VERSION} {both}: {_ALL}"
    return f"{NEWER_VERSION} {both}: upgrade this node, and all others with it"


def refusal(mine: int) -> web.Response:
    """Returns the answer to a request for another version."""
    headers = {"Upgrade": "websocket", HEADER: str(mine)}
    return web.Response(status=UPGRADE_REQUIRED, headers=headers)


Look = Callable[[], Awaitable[None]]


async def nowhere() -> None:
    """A machine that names no peers has nobody to look for."""


class Mixed:
    """Handles dialling nodes of other versions.

    It tells the owner of them, one line per address, for 32 addresses, and has the machine `look` for them at
    the endpoints that it knows.
    """

    def __init__(self, tell: Callable[[str], None], look: Look = nowhere) -> None:
        self._tell = tell
        self.look = look
        self._told: set[str] = set()

    async def met(self, request: web.BaseRequest, what: str) -> None:
        """Reports a request for a link of another version, unless its address was reported before."""
        address = "a relay" if request.remote == "" else request.remote
        if address is None or request.headers.get("Upgrade", "").lower() != "websocket":
            return
        if address not in self._told and len(self._told) < _MOST_ADDRESSES:
            self._told.add(address)
            self._tell(f"a node that comes from {address} {what}")
        await self.look()
