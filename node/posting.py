"""One keep-alive connection that POSTs bulk frames: a request at a time, without copying what it carries.

h11 says what goes on the wire, and reads the answer. A general client costs more CPU for a frame than
the system does for moving it: it joins, queues, and keeps cookies. What waits to be sent is bounded: it is
one frame.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import cast

import h11

from node.addresses import parse_endpoint, split_endpoint
from node.errors import ConfigError
from node.tls import Tls
from protocol import codec

MAX_ANSWER_BYTES = 8 * 1024


class Poster:
    """POSTs to one endpoint. Every error is an OSError: ConnectionError, TimeoutError."""

    def __init__(self, endpoint: str, connect_timeout_s: float, timeout_s: float, tls: Tls | None) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self._connect_timeout_s = connect_timeout_s
        self._timeout_s = timeout_s
        self._connection: _Connection | None = None

    async def post(self, frame: codec.Frame) -> int:
        """The answer's status. A connection that the far side gave up meanwhile is opened again, once."""
        async with asyncio.timeout(self._timeout_s):
            if self._connection is not None and self._connection.is_open:
                with suppress(ConnectionError):
                    return await self._connection.post(self._endpoint, frame)
            return await (await self._connect()).post(self._endpoint, frame)

    async def _connect(self) -> _Connection:
        self.close()
        try:
            host, port = split_endpoint(parse_endpoint(self._endpoint, "a peer's address"))
        except ConfigError as error:  # it is what the peer says of itself
            raise ConnectionError(str(error)) from error
        context = self._tls.dialling(self._endpoint) if self._tls else None
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_timeout_s):
            wire, connection = await loop.create_connection(_Connection, host, port, ssl=context)
        self._connection = connection
        if self._tls is not None:
            self._tls.check(self._endpoint, wire.get_extra_info("ssl_object"))
        return connection

    def close(self) -> None:
        """Drop the connection, and the request that is on it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Connection(asyncio.Protocol):
    """What is said on one socket."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_ANSWER_BYTES)
        self._answer: asyncio.Future[int] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a request may go out here."""
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """End it, at once."""
        if self._transport is not None:
            self._transport.abort()

    async def post(self, host: str, frame: codec.Frame) -> int:
        """Send one request and wait for its answer; ConnectionError if the connection ends before."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        answer = self._answer = asyncio.get_running_loop().create_future()
        headers = [("Host", host), ("Content-Length", str(len(frame)))]
        request = self._http.send(h11.Request(method="POST", target="/v1/bulk", headers=headers)) or b""
        try:
            self._transport.write(request + self._passed(frame.head))
            self._transport.write(self._passed(frame.payload))
            self._http.send(h11.EndOfMessage())
            return await answer
        except asyncio.CancelledError:
            self.close()  # a late answer would be taken for that of the next request
            raise

    def _passed(self, data: bytes | memoryview) -> bytes | memoryview:
        """Part of a body, which h11 counts and does not copy; all it asks of it is a length."""
        self._http.send_with_data_passthrough(h11.Data(data=cast("bytes", data)))
        return data

    # -- what asyncio calls ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Part of an answer. One that has a body, or after which nothing may follow, ends the connection."""
        try:
            self._http.receive_data(data)
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                return
            if not isinstance(event, h11.Response) or self._answer is None or self._answer.done():
                raise h11.RemoteProtocolError("another event than an answer")
            self._answer.set_result(event.status_code)
            if isinstance(self._http.next_event(), h11.EndOfMessage) and not self._http.trailing_data[0]:
                self._http.start_next_cycle()
            else:
                self.close()
        except h11.RemoteProtocolError:
            self._fail(ConnectionResetError("what answers is no node"))
        except h11.LocalProtocolError:
            self.close()  # the answer says that it is the last one

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is closed."""
        self._fail(error or ConnectionResetError("the connection was closed"))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self.close()
