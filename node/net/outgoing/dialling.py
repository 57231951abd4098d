"""Opens a link: a websocket, and the handshake that identifies both ends. No redirect is followed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from aiohttp import (
    ClientError,
    ClientHandlerType,
    ClientRequest,
    ClientResponse,
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    ClientWebSocketResponse,
    ClientWSTimeout,
    DummyCookieJar,
    ServerDisconnectedError,
    WSMessage,
    WSMsgType,
    WSServerHandshakeError,
)

from node.net.intake import HEARTBEAT_S, MAX_CONTROL_BYTES, RELAYED_OPEN_S
from node.net.outgoing.bulk_client import Pass
from node.net.outgoing.stream_connector import StreamConnector
from node.net.tls import Dialling, Tls, WrongPeer, not_met
from node.net.versions import UNNAMED, UPGRADE_REQUIRED, OtherVersion, difference, of_answer, subprotocol
from node.system.addresses import parse_endpoint
from node.system.errors import ConfigError
from node.system.streams import KERNEL, Streams
from node.system.system import SYSTEM, System
from protocol.adaptive_timeouts import Pace
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.wire import handshake
from protocol.wire.endpoints import key_of
from protocol.wire.handshake import NONCE_BYTES
from protocol.wire.limits import VERSION

CONNECT_FLOOR_S = 1.0
CONNECT_CAP_S = 5.0
RELAYED_FLOOR_S = 5.0
"""The least limit by a relay, whose stream may outlast a short outage; RELAYED_OPEN_S is the most."""
CLOSE_S = 1.0
_FULL = 503


@dataclass(frozen=True)
class Opened:
    """An open link: its websocket, and the pass that identifies its POST requests."""

    ws: ClientWebSocketResponse
    link: Pass


class Dialler:
    """Opens links in the name of one node."""

    def __init__(self, key: NodeKey, tls: Tls | None, system: System = SYSTEM) -> None:
        """If `tls` is None, all links run without TLS, whatever their addresses."""
        self._key = key
        self._tls = tls
        self._system = system
        self._direct_pace = Pace(CONNECT_FLOOR_S, CONNECT_CAP_S)
        self._relayed_pace = Pace(RELAYED_FLOOR_S, RELAYED_OPEN_S)
        self._client: ClientSession | None = None

    async def start(self) -> None:
        """Creates the HTTP client; links can be opened from now on."""
        self._client = new_client(self._system.streams, RELAYED_OPEN_S)  # `dial` has its own limit

    async def close(self) -> None:
        """Closes the HTTP client; no link can be opened any more."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def dial(self, endpoint: str) -> Opened:
        """Opens a link to an endpoint, with a time limit derived from earlier connections.

        Raises WrongPeer, OtherVersion, TimeoutError or the error of the network.
        """
        begun = asyncio.get_running_loop().time()
        pace = self._direct_pace if key_of(endpoint) is None else self._relayed_pace
        async with asyncio.timeout(pace.allowed_s):
            if self._client is None:
                raise ConnectionError("the transport is closed")
            ws = await connect(self._client, endpoint, self._tls, self._system.version)
            try:
                link = await self._introduced(ws, endpoint)
            except BaseException:
                await ws.close()
                raise
        pace.observe(asyncio.get_running_loop().time() - begun)
        return Opened(ws, link)

    async def _introduced(self, ws: ClientWebSocketResponse, endpoint: str) -> Pass:
        """Runs the dialler's part of the handshake."""
        mine = self._system.entropy(NONCE_BYTES)
        challenged = await meet(ws, endpoint, self._tls, mine, self._system.version)
        try:
            await ws.send_bytes(handshake.proof(self._key, mine, challenged))
            return Pass(challenged.key, handshake.read_ticket(_data(await ws.receive())))
        except RemoteProtocolError as error:
            raise _unproved(error) from error


def new_client(streams: Streams = KERNEL, connect_s: float = CONNECT_CAP_S) -> ClientSession:
    """Returns an HTTP client that follows no redirect, keeps no cookie and uses no proxy."""
    return ClientSession(
        connector=StreamConnector(streams),
        timeout=ClientTimeout(total=None, sock_connect=connect_s),
        cookie_jar=DummyCookieJar(),
        middlewares=(_no_redirect,),
    )


async def connect(
    client: ClientSession, endpoint: str, tls: Dialling | None, version: int = VERSION
) -> ClientWebSocketResponse:
    """Opens the websocket of a link, without its handshake.

    Raises OtherVersion, ConnectionError with a sentence, or the error of the network.
    """
    try:
        where = parse_endpoint(endpoint, "a peer's address")
    except ConfigError as error:  # the peer announced this address itself
        raise ConnectionError(str(error)) from error
    context = tls.dialling(endpoint) if tls else None
    try:
        return await client.ws_connect(
            f"{'http' if context is None else 'https'}://{where}/v1/link",
            protocols=(subprotocol(version),),
            timeout=ClientWSTimeout(ws_close=CLOSE_S),
            max_msg_size=MAX_CONTROL_BYTES,
            heartbeat=HEARTBEAT_S if key_of(endpoint) is None else None,  # relayed streams ask themselves
            ssl=context or False,
        )
    except (ServerDisconnectedError, ClientSSLError) as error:
        raise ConnectionError(not_met(under_tls=context is not None)) from error
    except WSServerHandshakeError as error:
        raise _refused(error, version) from error


async def meet(
    ws: ClientWebSocketResponse,
    endpoint: str,
    tls: Dialling | None,
    nonce: bytes,
    version: int = VERSION,
) -> handshake.Challenge:
    """Runs the handshake until the far end has proved its key; the dialler has not shown its own yet.

    It sends nothing to a peer with a wrong key under TLS. `nonce`: NONCE_BYTES random bytes. Raises
    WrongPeer, OtherVersion or ConnectionResetError.
    """
    node = tls.check(endpoint, ws.get_extra_info("ssl_object")) if tls else None
    if ws.protocol is None:
        raise OtherVersion(difference(UNNAMED, version))
    try:
        await ws.send_bytes(handshake.knock(nonce))
        challenged = handshake.read_challenge(_data(await ws.receive()), nonce)
    except RemoteProtocolError as error:
        raise _unproved(error) from error
    if node is not None and challenged.key != node:
        shown = challenged.key.hex()[:16]
        raise WrongPeer(f"the far end shows the key {shown}... under a certificate of another")
    return challenged


def _unproved(error: RemoteProtocolError) -> WrongPeer:
    return WrongPeer(f"the far end does not prove its key: {error}")


def _data(frame: WSMessage) -> bytes:
    if frame.type is not WSMsgType.BINARY:
        raise ConnectionResetError("the far end ends the link in its handshake")
    return bytes(frame.data)


def _refused(answer: WSServerHandshakeError, version: int) -> ConnectionError:
    """Returns the error that says why a link of this version was refused."""
    if answer.status == UPGRADE_REQUIRED:
        return OtherVersion(difference(of_answer(answer.headers or {}), version))
    if answer.status == _FULL:
        return ConnectionRefusedError("the far end takes no more links for now")
    return ConnectionError(f"the far end is no node: it answers a link with status {answer.status}")


async def _no_redirect(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Raises ClientError for a redirect: a node answers only at its announced address, under its own key."""
    answer = await handler(request)
    if 300 <= answer.status < 400:
        answer.close()
        raise ClientError(f"the far end is no node: it redirects ({answer.status}), which is not followed")
    return answer
