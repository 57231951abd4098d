"""Websockets to a relay: outgoing only, through the proxy that the environment names, under any certificate.

An error says which step failed: name, port, proxy, its password, TLS, or the websocket. What runs inside is
proved or sealed by itself, so a proxy that looks into TLS learns and can do no more than the relay.
"""

from __future__ import annotations

import ssl
import urllib.request

from aiohttp import (
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientError,
    ClientHttpProxyError,
    ClientProxyConnectionError,
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    ClientWebSocketResponse,
    DummyCookieJar,
    WSServerHandshakeError,
)
from yarl import URL

from node.net.tls import url
from node.system.addresses import is_loopback, split_endpoint
from node.system.errors import reason
from protocol.relay.admission import SUBPROTOCOL

CONNECT_S = 30.0
"""How long a connection may take, through proxies and TLS."""
PING_S = 20.0
_PASSWORD, _FORBIDDEN = 407, 403
_HOW = "HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT"


class NoWay(ConnectionError):
    """No websocket to the relay opens; the sentence names the step that failed."""


def outgoing_client() -> ClientSession:
    """Returns an HTTP client that uses the proxy of the environment and keeps no cookie."""
    return ClientSession(
        trust_env=True,
        timeout=ClientTimeout(total=None, connect=CONNECT_S, sock_connect=CONNECT_S),
        cookie_jar=DummyCookieJar(),
    )


async def relay_websocket(
    client: ClientSession, endpoint: str, path: str, most_bytes: int
) -> ClientWebSocketResponse:
    """Opens a websocket at a relay, HOST:PORT. Raises NoWay."""
    try:
        return await client.ws_connect(
            f"{url('auto', endpoint)}{path}",
            protocols=(SUBPROTOCOL,),
            ssl=_any_certificate(),
            heartbeat=PING_S,
            max_msg_size=most_bytes,
        )
    except (ClientError, OSError, ValueError) as error:
        raise NoWay(f"no way to {endpoint}: {_why(error, endpoint)}") from error


def _any_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _why(error: Exception, endpoint: str) -> str:
    host, _ = split_endpoint(endpoint)
    match error:
        case ClientHttpProxyError(status=status) if status == _PASSWORD:
            return f"the proxy asks for a password ({_PASSWORD}): set {_HOW}"
        case ClientHttpProxyError(status=status):
            return f"the proxy lets nothing through (status {status}): ask for an exception for {host}"
        case ClientProxyConnectionError():
            return f"the proxy {_proxy_of(host)} does not answer ({reason(error)}): correct HTTPS_PROXY"
        case WSServerHandshakeError(status=status) if status == _FORBIDDEN:
            return f"the proxy lets no websocket through (status {status}): ask for an exception for {host}"
        case WSServerHandshakeError(status=status):
            return f"no relay answers there (status {status}): correct the address, or ask who runs it"
        case ClientConnectorDNSError():
            return f"the name {host} does not resolve{_without_proxy(host)}"
        case ClientSSLError() | ssl.SSLError():
            return f"TLS fails ({reason(error)}): another program answers there, or a proxy on the way"
        case ClientConnectorError():
            return f"{reason(error.os_error).lower()}{_without_proxy(host)}"
        case TimeoutError():
            return f"no answer in {CONNECT_S:g} s{_without_proxy(host)}"
    return f"{reason(error)}{_without_proxy(host)}"


def _without_proxy(host: str) -> str:
    """Advice, unless a proxy is set or the relay is on this machine."""
    if is_loopback(f"{host}:1") or _proxy_of(host):
        return ""
    return f"; HTTPS_PROXY is not set: if this network has a proxy, set it ({_HOW}) and try again"


def _proxy_of(host: str) -> str:
    """The proxy for a host, without its password; empty if there is none."""
    proxies = urllib.request.getproxies_environment()
    if "https" not in proxies or urllib.request.proxy_bypass(host):
        return ""
    proxy = URL(proxies["https"])
    return f"{proxy.host}:{proxy.port}"
