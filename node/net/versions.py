"""The protocol versions of the two ends of a link, and the messages about a difference.

A dialler requests a websocket with a subprotocol whose name holds the version (RFC 6455, section 1.9). A
request for another version gets the answer 426, with this node's version in a header, and no upgrade.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from aiohttp import web

from protocol.wire.limits import VERSION

UPGRADE_REQUIRED = 426
OTHER = "a link of another version of the protocol"
HEADER = "Murmuration-Version"
SUBPROTOCOL = f"murmuration.{VERSION}"
_ASKED = re.compile(r"murmuration\.([0-9]{1,6})")
_NUMBER = re.compile(r"[0-9]{1,6}")
_MOST_ADDRESSES = 32


class OtherVersion(ConnectionError):
    """The far end speaks another version of the protocol."""


def of_answer(headers: Mapping[str, str]) -> str:
    """Returns the version that an acceptor stated when it refused a link (426), in words."""
    said = headers.get(HEADER, "")
    return f"version {int(said)}" if _NUMBER.fullmatch(said) else "another version"


def of_request(request: web.BaseRequest) -> str | None:
    """Returns a dialler's version in words; None if it speaks this node's version."""
    asked = [name.strip() for name in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    if SUBPROTOCOL in asked:
        return None
    versions = [match[1] for name in asked if (match := _ASKED.fullmatch(name))]
    return f"version {int(versions[0])}" if versions else "an older version"


def difference(theirs: str) -> str:
    """Returns the line about an end that speaks `theirs`, with what to do."""
    return f"speaks {theirs} of the protocol, this node speaks {VERSION}: update the older of the two"


def refusal() -> web.Response:
    """Returns the answer to a request for another version."""
    headers = {"Upgrade": "websocket", HEADER: str(VERSION)}
    return web.Response(status=UPGRADE_REQUIRED, headers=headers)


class Mixed:
    """Tells the owner about dialling nodes of other versions: one line per address, for 32 addresses."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told: set[str] = set()

    def met(self, request: web.BaseRequest, theirs: str) -> None:
        """Reports a request for a link of another version, unless its address was reported before."""
        address = request.remote
        is_link = request.headers.get("Upgrade", "").lower() == "websocket"
        if address is None or not is_link or address in self._told or len(self._told) >= _MOST_ADDRESSES:
            return
        self._told.add(address)
        self._tell(f"a node that comes from {address} {difference(theirs)}")
