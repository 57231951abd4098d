"""One keep-alive connection that POSTs bulk frames: a request at a time, without copying what it carries.

It speaks as much HTTP/1.1 as an answer without a body needs; a general client costs more CPU for a frame than
the system does for moving it. Whatever else comes back ends the connection, and the next request opens a
new one. What waits to be sent is bounded: it is one frame.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

from node.addresses import parse_endpoint, split_endpoint
from node.errors import ConfigError
from protocol import codec

MAX_ANSWER_BYTES = 8 * 1024
_END = b"\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.1 ([2-5][0-9]{2})[ \r]")
_GOES_ON = re.compile(rb"\r\ncontent-length:[ \t]*0[ \t]*(\r\n|$)", re.IGNORECASE)
_ENDS = re.compile(rb"\r\n(connection:[ \t]*close|transfer-encoding:)", re.IGNORECASE)
_NO_CONTENT = 204


class Poster:
    """POSTs to one endpoint. Every error is an OSError: ConnectionError, TimeoutError."""

    def __init__(self, endpoint: str, connect_timeout_s: float, timeout_s: float) -> None:
        self._endpoint = endpoint
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
        async with asyncio.timeout(self._connect_timeout_s):
            _, self._connection = await asyncio.get_running_loop().create_connection(_Connection, host, port)
        return self._connection

    def close(self) -> None:
        """Drop the connection, and the request that is on it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Connection(asyncio.Protocol):
    """What is said on one socket."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""
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
        request = f"POST /v1/bulk HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(frame)}\r\n\r\n"
        try:
            self._transport.write(request.encode("ascii") + frame.head)
            self._transport.write(frame.payload)
            return await answer
        except asyncio.CancelledError:
            self.close()  # a late answer would be taken for that of the next request
            raise

    # -- what asyncio calls ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Part of an answer."""
        self._received += data
        head, end, rest = self._received.partition(_END)
        if not end and len(head) <= MAX_ANSWER_BYTES:
            return
        self._received = b""
        status = _STATUS.match(head)
        if not end or status is None or self._answer is None or self._answer.done():
            self._fail(ConnectionResetError("what answers is no node"))
            return
        self._answer.set_result(int(status[1]))
        is_empty = int(status[1]) == _NO_CONTENT or _GOES_ON.search(head)
        if rest or not is_empty or _ENDS.search(head):
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is closed."""
        self._fail(error or ConnectionResetError("the connection was closed"))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self.close()
