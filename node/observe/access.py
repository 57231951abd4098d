"""Who may look at a node: its owner, by a token, or on this machine anybody if the node listens there alone.

Peers reach the same listener, so off loopback nothing is shown without the token. A browser is asked two
things besides: that the address it used is this node's own (a name that an attacker points at this address
is not: DNS rebinding), and that no other site's page is asking.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from node.addresses import is_loopback, parse_key, split_endpoint
from node.errors import ConfigError
from node.storage.key_file import read_secret, write_secret

TOKEN_BYTES = 32
_SAME = {"same-origin", "none"}
_SCHEME = "Bearer "


@dataclass(frozen=True)
class Access:
    """`host`: the name by which this node is known; `token`: None where it listens on loopback alone.

    `url`: where the page is.
    """

    host: str
    token: str | None
    url: str

    def check_address(self, request: web.BaseRequest) -> None:
        """Raise 421 unless the request names this node, or this machine, as the one it wants."""
        named = _host(request.headers.get("Host", ""))
        if named != self.host and not (named and is_loopback(f"{named}:1")):
            raise web.HTTPMisdirectedRequest(text="this node has another name\n")

    def check(self, request: web.BaseRequest) -> None:
        """Raise 421, 403 or 401 unless the request may see what only the owner may."""
        self.check_address(request)
        if request.headers.get("Sec-Fetch-Site", "none") not in _SAME:
            raise web.HTTPForbidden(text="asked by the page of another site\n")
        if self.token is not None and not _equal(_bearer(request), self.token):
            raise web.HTTPUnauthorized(text="the token is needed\n", headers={"WWW-Authenticate": "Bearer"})

    def shown(self, token_file: Path | None, *, on_terminal: bool) -> str:
        """Where the page is, for its owner; with the token only `on_terminal`, for a log is read by others.

        Where a browser has the token from, behind the #, it is never sent as part of an address.
        """
        if self.token is None:
            return self.url
        if on_terminal:
            return f"{self.url}#token={self.token}"
        where = f"its token: {token_file}" if token_file else "give --page-token FILE to look at it"
        return f"{self.url} ({where})"


def access_of(endpoint: str, bound: str, url: str, token: Callable[[], str]) -> Access:
    """For a node that announces `endpoint` and whose listener is bound to `bound`, both HOST:PORT.

    `url`: the page's, without a path.
    `token` is asked for unless both are this machine alone.
    """
    is_local = is_loopback(bound) and is_loopback(endpoint)
    return Access(split_endpoint(endpoint)[0], None if is_local else token(), f"{url}/")


def new_token() -> str:
    """From the system's CSPRNG, in hex."""
    return os.urandom(TOKEN_BYTES).hex()


def kept_token(path: Path) -> str:
    """The token in a file, made at the first start, mode 0600. ConfigError where that can not be."""
    kept = read_secret(path, "token", 2 * TOKEN_BYTES)
    if kept is None:
        kept = new_token()
        write_secret(path, "token", kept)
    if parse_key(kept) is None:
        raise ConfigError(
            f"the token file {path} does not hold a token: 64 hex digits; delete it, and a new one is made"
        )
    return kept


def _host(header: str) -> str:
    """The host of HOST, HOST:PORT or [IPv6]:PORT, in lower case."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def _bearer(request: web.BaseRequest) -> str:
    header = request.headers.get("Authorization", "")
    return header[len(_SCHEME) :] if header.startswith(_SCHEME) else ""


def _equal(given: str, wanted: str) -> bool:
    """In constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), wanted.encode())
