"""Opens websockets to relays, by the proxy that the environment names, and says which step fails.

The relay is identified by its key, so any certificate is accepted: whoever intercepts TLS, as some proxies
do, can do what a relay can, and no more.
"""

from __future__ import annotations

import os
import ssl
import urllib.request
from contextlib import suppress

from aiohttp import (
    ClientConnectorDNSError,
    ClientError,
    ClientHttpProxyError,
    ClientProxyConnectionError,
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    ClientWebSocketResponse,
    ClientWSTimeout,
    DummyCookieJar,
    TCPConnector,
    WSMsgType,
    WSServerHandshakeError,
)

from node.net.outgoing.stream_connector import StreamConnector
from node.system.addresses import split_endpoint
from node.system.errors import UserError, reason
from node.system.streams import Streams
from node.system.system import Entropy
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.relay.admission import SUBPROTOCOL
from protocol.wire import handshake
from protocol.wire.ids import Key

CONNECT_S = 15.0
"""The time limit for each step to a relay, with a proxy's part in it."""
CLOSE_S = 1.0
HEARTBEAT_S = 30.0
"""A websocket on which nothing came for this long is asked, and closed half as long after that."""
_NO_PROXY = (
    "HTTPS_PROXY is not set: if this network has a proxy, set it "
    "(HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT) and try again"
)


class NoWay(UserError):
    """A relay cannot be reached now: one line that names the step that failed. Another try may succeed."""


class WrongRelay(UserError):
    """Another machine answers in the place of the relay."""


class RelayClient:
    """Opens websockets to relays."""

    def __init__(self, streams: Streams) -> None:
        """`streams` are used where there is no proxy."""
        self._direct = _session(StreamConnector(streams))
        self._by_proxy: ClientSession | None = None
        self._context = _any_certificate()

    async def close(self) -> None:
        """Closes all websockets."""
        await self._direct.close()
        if self._by_proxy is not None:
            await self._by_proxy.close()

    async def open(self, endpoint: str, path: str, most_bytes: int) -> ClientWebSocketResponse:
        """Opens a websocket to a relay. Raises NoWay.

        Args:
            endpoint: HOST:PORT of the relay.
            path: of the request, with its slash.
            most_bytes: the largest message that the relay may send.
        """
        host, _ = split_endpoint(endpoint)
        proxy: str | None = None
        try:
            proxy = proxy_for(host)
            return await self._session_by(proxy).ws_connect(
                f"https://{endpoint}{path}",
                protocols=(SUBPROTOCOL,),
                timeout=ClientWSTimeout(ws_close=CLOSE_S),
                max_msg_size=most_bytes + 1,  # the first size that aiohttp refuses
                heartbeat=HEARTBEAT_S,
                compress=0,
                proxy=proxy,
                ssl=self._context,
            )
        except (ClientError, OSError, ValueError) as error:
            raise NoWay(f"no way to {endpoint}: {_why(error, host, proxy)}") from error

    def _session_by(self, proxy: str | None) -> ClientSession:
        if proxy is None:
            return self._direct
        if self._by_proxy is None:
            self._by_proxy = _session(TCPConnector(limit=0, force_close=True))
        return self._by_proxy


async def prove(ws: ClientWebSocketResponse, key: NodeKey, entropy: Entropy) -> Key:
    """Runs the handshake: the relay proves its key, then this node its own. Returns the relay's key.

    Raises RemoteProtocolError, or ConnectionError if the relay ends it.
    """
    nonce = entropy(handshake.NONCE_BYTES)
    await ws.send_bytes(handshake.knock(nonce))
    challenged = handshake.read_challenge(await next_message(ws), nonce, handshake.RELAY)
    await ws.send_bytes(handshake.proof(key, nonce, challenged, handshake.RELAY))
    return challenged.key


async def next_message(ws: ClientWebSocketResponse) -> bytes:
    """Returns the next message; ConnectionError at the end, RemoteProtocolError for one that is no bytes."""
    message = await ws.receive()
    if message.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED):
        raise ConnectionResetError("it has ended the connection")
    if message.type is not WSMsgType.BINARY:
        raise RemoteProtocolError("a message that is no bytes")
    return bytes(message.data)


def proxy_for(host: str) -> str | None:
    """Returns the URL of the proxy that HTTPS_PROXY names, unless NO_PROXY names the host."""
    named = urllib.request.getproxies_environment().get("https")
    if not named or urllib.request.proxy_bypass(host):
        return None
    return named if "://" in named else f"http://{named}"


def without_password(proxy: str) -> str:
    """Returns a proxy as people may read it, from its URL: HOST:PORT."""
    return proxy.rpartition("://")[2].rpartition("@")[2].strip("/")


def _session(connector: StreamConnector | TCPConnector) -> ClientSession:
    return ClientSession(
        connector=connector,
        timeout=ClientTimeout(total=None, sock_connect=CONNECT_S),
        cookie_jar=DummyCookieJar(),
    )


def _any_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _why(error: Exception, host: str, proxy: str | None) -> str:
    """Returns which step failed, and what to do. It never shows the proxy's password."""
    via = None if proxy is None else without_password(proxy)
    match error:
        case ClientHttpProxyError(status=407):
            return (
                "the proxy asks for a password (407): set the right one "
                "(HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT) and try again"
            )
        case ClientHttpProxyError(status=status):
            return f"the proxy {via} opens no connection (status {status}): ask for an exception for {host}"
        case ClientProxyConnectionError():
            return f"the proxy {via} does not answer ({_cause(error)}): see whether HTTPS_PROXY is right"
        case WSServerHandshakeError(status=404):
            return "what answers there is no relay (status 404): see whether the address is right"
        case WSServerHandshakeError(status=status):
            return f"a proxy lets no websocket through (status {status}): ask for an exception for {host}"
        case ClientConnectorDNSError():
            return f"the name does not resolve ({_cause(error)}); {_NO_PROXY}"
        case ClientSSLError() | ssl.SSLError():
            return f"TLS fails ({_cause(error)}): see whether another program uses this port"
        case TimeoutError():
            return f"no answer in time; {_NO_PROXY if via is None else f'the proxy is {via}'}"
        case ValueError():
            return "HTTPS_PROXY is no address; allowed: http://NAME:PASSWORD@HOST:PORT"
        case _:
            return f"{_cause(error)}; {_NO_PROXY if via is None else f'the proxy is {via}'}"


def _cause(error: Exception) -> str:
    cause = getattr(error, "os_error", None) or error
    number = getattr(cause, "errno", None)
    with suppress(TypeError, ValueError, OverflowError):
        if isinstance(number, int) and number > 0 and not isinstance(cause, ssl.SSLError):
            return os.strerror(number).lower()
    return reason(cause)
