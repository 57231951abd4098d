"""Controls who may see a node: its owner, by a token; anybody on this machine if it listens only on loopback.

Peers reach the same listener, so off loopback the node shows nothing without the token. For browsers there
are two more checks: the address in the request must be this node's own, which defeats DNS rebinding (an
attacker's host name that resolves to this address), and the request must not come from another site's page.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import HttpVersion11, web

from node.storage.key_file import read_secret, write_secret
from node.system.addresses import is_loopback, join_endpoint, parse_key, split_endpoint
from node.system.errors import ConfigError
from node.system.system import SYSTEM, System

TOKEN_BYTES = 32
_SAME = {"same-origin", "none"}
_SCHEME = "Bearer "
_PROXIES = {"forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"}
"""Headers, beside x-forwarded-for and the like, by which a proxy says that it passes on a request."""


@dataclass(frozen=True)
class Access:
    """The checks of a request.

    `host` is the node's host name, `token` is None if the node listens only on loopback, `url` is the page's.
    """

    host: str
    token: str | None
    url: str

    def check_address(self, request: web.BaseRequest) -> None:
        """Raises 421 unless the request's Host header names this node or this machine."""
        named = _host(request.headers.get("Host", ""))
        if named != self.host and not (named and is_loopback(f"{named}:1")):
            raise web.HTTPMisdirectedRequest(text="this node has another name\n")

    def check(self, request: web.BaseRequest) -> None:
        """Raises 421, 403 or 401 unless the request may see what is for the owner only."""
        self.check_address(request)
        if request.headers.get("Sec-Fetch-Site", "none") not in _SAME:
            raise web.HTTPForbidden(text="asked by the page of another site\n")
        if self.token is None:
            return
        header = request.headers.get("Authorization", "")
        given = header[len(_SCHEME) :] if header.startswith(_SCHEME) else ""
        # Compares in constant time.
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.token.encode()):
            raise web.HTTPUnauthorized(text="the token is needed\n", headers={"WWW-Authenticate": "Bearer"})

    def check_here(self, request: web.BaseRequest) -> None:
        """Raises 403, or as `check` does, unless the owner asks on this machine, through nobody else.

        A proxy on this machine comes from loopback, too. Most say so in a header, name this node as its
        caller did, or speak HTTP/1.0; whatever is in doubt is refused.
        """
        self.check(request)
        host, remote = _host(request.headers.get("Host", "")), request.remote or ""
        is_here = all(name and is_loopback(join_endpoint(name, 1)) for name in (host, remote))
        names = [name.lower() for name in request.headers]
        is_by_proxy = any(name in _PROXIES or name.startswith("x-forwarded") for name in names)
        if not is_here or request.version < HttpVersion11 or is_by_proxy:
            raise web.HTTPForbidden(text="shown to the owner on this machine alone\n")

    def shown(self, token_file: Path | None, *, on_terminal: bool) -> str:
        """Returns the page's address for the owner, with the token only `on_terminal`: others read logs.

        The token follows a #, so a browser never sends it as part of the address.
        """
        if self.token is None:
            return self.url
        if on_terminal:
            return f"{self.url}#token={self.token}"
        where = f"its token: {token_file}" if token_file else "give --page-token FILE to look at it"
        return f"{self.url} ({where})"


def access_of(endpoint: str, bound: str, url: str, token: Callable[[], str]) -> Access:
    """Returns the access to a node that announces `endpoint` and listens on `bound`, both HOST:PORT.

    `url` is the page's, without a path. `token` provides the token; it is called unless both are loopback.
    """
    is_local = is_loopback(bound) and is_loopback(endpoint)
    return Access(split_endpoint(endpoint)[0], None if is_local else token(), f"{url}/")


def new_token(system: System = SYSTEM) -> str:
    """Returns 32 random bytes from the system's CSPRNG as 64 hex digits."""
    return system.entropy(TOKEN_BYTES).hex()


def kept_token(path: Path, system: System = SYSTEM) -> str:
    """Returns the token in a file, which the first start creates, mode 0600.

    Raises ConfigError if the file is unusable or does not hold a token.
    """
    kept = read_secret(path, "token", 2 * TOKEN_BYTES)
    if kept is None:
        kept = new_token(system)
        write_secret(path, "token", kept, system.disk)
    if parse_key(kept) is None:
        raise ConfigError(
            f"the token file {path} does not hold a token: 64 hex digits; delete it, and a new one is made"
        )
    return kept


def _host(header: str) -> str:
    """Returns the host of HOST, HOST:PORT or [IPv6]:PORT, in lower case."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()
