"""One keep-alive connection that POSTs bulk frames, one request at a time, without copying their bodies.

h11 formats the requests and parses the answers. A general HTTP client uses more CPU for a frame than the
system needs to move it, because it joins buffers, queues, and handles cookies. At most one frame waits to be
sent.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import cast

import h11

from node.net.aborting import abort
from node.net.tls import Tls, WrongPeer
from node.system.addresses import parse_endpoint, split_endpoint
from node.system.errors import ConfigError
from node.system.streams import KERNEL, Streams
from protocol.wire import codec
from protocol.wire.ids import Key

MAX_ANSWER_BYTES = 8 * 1024
_LONGEST_RETRY_DIGITS = 4


class Kind(Enum):
    """What an answer means for its frame."""

    TAKEN = auto()
    REFUSED = auto()
    """The frame broke a rule, and the peer dropped it."""
    EARLY = auto()
    """The frame came too early: send it again soon."""
    BUSY = auto()
    """The peer takes no bulk for now: send this frame and the following ones later."""
    UNFIT = auto()
    """No frame of this version is refused like this: one end has a fault or another version."""
    ODD = auto()
    """No node answers like this."""


_KINDS = {
    400: Kind.REFUSED,
    413: Kind.UNFIT,
    415: Kind.UNFIT,
    425: Kind.EARLY,
    429: Kind.BUSY,
    503: Kind.BUSY,
}


@dataclass(frozen=True)
class Answer:
    """The answer to a frame. `retry_after_s`: when to try again, if the peer says so."""

    status: int
    retry_after_s: float | None

    @property
    def kind(self) -> Kind:
        """What the answer means for the frame."""
        return Kind.TAKEN if 200 <= self.status < 300 else _KINDS.get(self.status, Kind.ODD)


@dataclass(frozen=True)
class Pass:
    """Identifies the link of a frame: the key of the peer, and the ticket that the peer issued."""

    key: Key
    ticket: bytes


class BulkClient:
    """POSTs to one endpoint, for one task. Network errors are OSErrors."""

    def __init__(
        self,
        endpoint: str,
        connect_timeout_s: float,
        timeout_s: float,
        tls: Tls | None,
        streams: Streams = KERNEL,
    ) -> None:
        self._endpoint = endpoint
        self._streams = streams
        self._tls = tls
        self._connect_timeout_s = connect_timeout_s
        self._timeout_s = timeout_s
        self._connection: _Connection | None = None
        self._key: Key | None = None
        """The key at the far end of the connection; None without TLS."""

    async def post(self, frame: codec.Frame, link: Pass) -> Answer:
        """POSTs a frame and returns the answer; reopens a connection that the peer has closed, once.

        Raises WrongPeer, and sends nothing, if the node that answers is not the one at the link's far end.
        """
        async with asyncio.timeout(self._timeout_s):
            if self._connection is not None and self._connection.is_open and self._key in (None, link.key):
                with suppress(ConnectionError):
                    return await self._connection.post(self._endpoint, frame, link.ticket)
            return await (await self._connect(link)).post(self._endpoint, frame, link.ticket)

    async def _connect(self, link: Pass) -> _Connection:
        """Opens a connection, and keeps it once the key at the far end is checked."""
        self.close()
        try:
            host, port = split_endpoint(parse_endpoint(self._endpoint, "a peer's address"))
        except ConfigError as error:  # the peer announced this address
            raise ConnectionError(str(error)) from error
        context = self._tls.dialling(self._endpoint) if self._tls else None
        async with asyncio.timeout(self._connect_timeout_s):
            wire, connection = await self._streams.open(host, port, _Connection, context, bulk=True)
        try:
            shown = wire.get_extra_info("ssl_object")
            self._key = self._tls.check(self._endpoint, shown) if self._tls else None
            if self._key not in (None, link.key):
                raise WrongPeer("bulk is answered under another key than the link")
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def close(self) -> None:
        """Drops the connection and any request on it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Connection(asyncio.Protocol):
    """HTTP on one socket."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_ANSWER_BYTES)
        self._answer: asyncio.Future[Answer] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the connection can take a request."""
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            abort(self._transport)

    async def post(self, host: str, frame: codec.Frame, ticket: bytes) -> Answer:
        """Sends one request and returns its answer; raises ConnectionError if the connection ends first."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        answer = self._answer = asyncio.get_running_loop().create_future()
        headers = [
            ("Host", host),
            ("Authorization", f"Bearer {ticket.hex()}"),
            ("Content-Length", str(len(frame))),
        ]
        request = self._http.send(h11.Request(method="POST", target="/v1/bulk", headers=headers)) or b""
        try:
            self._transport.write(request + self._passed(frame.head))
            self._transport.write(self._passed(frame.payload))
            self._http.send(h11.EndOfMessage())
            return await answer
        except asyncio.CancelledError:
            self.close()  # a late answer would look like the next request's
            raise

    def _passed(self, data: bytes | memoryview) -> bytes | memoryview:
        """Returns part of a body after h11 has counted it; h11 reads only its length and copies nothing."""
        self._http.send_with_data_passthrough(h11.Data(data=cast("bytes", data)))
        return data

    # -- called by asyncio -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport: the socket is open."""
        self._transport = cast("asyncio.Transport", transport)  # other event loops have classes of their own

    def data_received(self, data: bytes) -> None:
        """Reads part of an answer; one with a body, or one that ends keep-alive, ends the connection."""
        try:
            self._http.receive_data(data)
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                return
            if not isinstance(event, h11.Response) or self._answer is None or self._answer.done():
                raise h11.RemoteProtocolError("another event than an answer")
            self._answer.set_result(Answer(event.status_code, _retry_after_s(event)))
            if isinstance(self._http.next_event(), h11.EndOfMessage) and not self._http.trailing_data[0]:
                self._http.start_next_cycle()
            else:
                self.close()
        except h11.RemoteProtocolError:
            self._fail(ConnectionResetError("the far end is no node"))
        except h11.LocalProtocolError:
            self.close()  # the answer ends keep-alive

    def connection_lost(self, error: Exception | None) -> None:
        """Fails the pending request: the socket is closed."""
        self._fail(error or ConnectionResetError("the connection was closed"))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self.close()


def _retry_after_s(answer: h11.Response) -> float | None:
    """Returns Retry-After in seconds; None if it is missing, a date, or malformed."""
    for name, value in answer.headers:
        if name == b"retry-after" and value.isdigit() and len(value) <= _LONGEST_RETRY_DIGITS:
            return float(value)
    return None
