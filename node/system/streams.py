"""Byte streams between endpoints: the only way in which a node reaches others, and is reached.

A node opens a stream to an endpoint and accepts those that others open to it. Here these are TCP connections
of the kernel; another implementation of `Streams` may carry them in another way. TLS and HTTP run on top.
"""

from __future__ import annotations

import asyncio
import errno
import select
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from aiohappyeyeballs import start_connection

from protocol.wire.ids import Key

_NEXT_ADDRESS_S = 0.25

P = TypeVar("P", bound=asyncio.BaseProtocol)


class BoundAddress(Protocol):
    """An address at which others reach this node; a listening socket is one."""

    def getsockname(self) -> Any:
        """Returns (host, port, ...)."""

    def close(self) -> None:
        """Gives the address back."""


class Incoming(Protocol):
    """A stream that somebody else opened, of which nothing was read yet.

    It costs little until `serve` hands it to a protocol.
    """

    @property
    def address(self) -> str:
        """The host from which it comes; empty if a relay brought it."""

    @property
    def key(self) -> Key | None:
        """The member from which it comes, by a relay's word alone; None: it came to an address."""

    def watch(self, ready: Callable[[], None]) -> None:
        """Calls `ready` whenever there is something to read, or the end."""

    def unwatch(self) -> None:
        """Calls `ready` no more."""

    def first_byte(self) -> bytes | None:
        """Returns its first byte, which stays unread; empty before that, None if the far end closed it."""

    async def serve(
        self, protocol: asyncio.Protocol, tls: ssl.SSLContext | None, handshake_s: float | None
    ) -> None:
        """Hands it to a protocol, after the TLS handshake if there is one. Raises OSError."""

    def shut(self) -> None:
        """Ends it while `serve` is under way, which then ends with an error."""

    def close(self) -> None:
        """Closes it, unless `serve` has handed it over."""


class Listener(Protocol):
    """The incoming streams of one address."""

    def watch(self, ready: Callable[[], None]) -> None:
        """Calls `ready` whenever a stream waits to be accepted."""

    def unwatch(self) -> None:
        """Calls `ready` no more."""

    def accept(self) -> Incoming:
        """Returns a waiting stream. Raises BlockingIOError if there is none, else OSError."""

    def close(self) -> None:
        """Accepts no more."""


class Pair(Incoming, Protocol):
    """One end of a stream within this process: to be served, or connected."""

    async def connect(
        self, protocol: Callable[[], P], tls: ssl.SSLContext | None, name: str
    ) -> tuple[asyncio.BaseTransport, P]:
        """Hands it to a protocol that dials, with TLS to `name` if there is a context. Raises OSError."""


class Streams(Protocol):
    """A way to reach others."""

    async def open(
        self,
        host: str,
        port: int,
        protocol: Callable[[], P],
        tls: ssl.SSLContext | None,
        *,
        bulk: bool = False,
    ) -> tuple[asyncio.BaseTransport, P]:
        """Opens a stream to an endpoint, with TLS if there is a context. Raises OSError.

        `bulk`: large frames will go by it, which may take another way than small ones.
        """

    def listen(self, bound: BoundAddress) -> Listener:
        """Returns the streams that others open to an address that is bound already."""

    async def pair(self, near: Callable[[], asyncio.BaseProtocol], key: Key | None) -> Pair:
        """Makes a stream within this process; returns the end that `near` does not get. Raises OSError.

        `key`: the member from which the far end comes, if it is to be accepted.
        """


class KernelStreams:
    """TCP connections."""

    async def open(
        self,
        host: str,
        port: int,
        protocol: Callable[[], P],
        tls: ssl.SSLContext | None,
        *,
        bulk: bool = False,
    ) -> tuple[asyncio.BaseTransport, P]:
        """See Streams.open. A host's addresses are tried in turn, a quarter of a second apart (RFC 8305)."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        sock = await start_connection(found, happy_eyeballs_delay=_NEXT_ADDRESS_S)
        name = None if tls is None else host
        return await loop.create_connection(protocol, sock=sock, ssl=tls, server_hostname=name)

    def listen(self, bound: BoundAddress) -> Listener:
        """See Streams.listen. Raises TypeError unless `bound` is a listening socket."""
        if not isinstance(bound, socket.socket):
            raise TypeError(f"{bound!r} is no socket")
        return _SocketListener(bound)

    async def pair(self, near: Callable[[], asyncio.BaseProtocol], key: Key | None) -> Pair:
        """See Streams.pair."""
        mine, theirs = socket.socketpair()
        for sock in (mine, theirs):
            sock.setblocking(False)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(near, mine)
        except BaseException:  # the transport of `mine` closes it
            theirs.close()
            raise
        return _SocketPair(theirs, "", key)


class _SocketListener:
    """A listening socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._waiting = select.poll()
        self._waiting.register(sock, select.POLLIN)

    def watch(self, ready: Callable[[], None]) -> None:
        self._loop.add_reader(self._sock, ready)

    def unwatch(self) -> None:
        self._loop.remove_reader(self._sock)

    def accept(self) -> Incoming:
        try:
            sock, address = self._sock.accept()
        except OSError as error:
            # Without a descriptor the system says so before it looks whether somebody waits.
            if error.errno in (errno.EMFILE, errno.ENFILE) and not self._waiting.poll(0):
                raise BlockingIOError from None
            raise
        sock.setblocking(False)
        return _SocketIncoming(sock, address[0])

    def close(self) -> None:
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
            self._sock.close()


class _SocketIncoming:
    """An accepted socket."""

    def __init__(self, sock: socket.socket, address: str, key: Key | None = None) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self.address = address
        self.key = key

    def watch(self, ready: Callable[[], None]) -> None:
        self._loop.add_reader(self._sock, ready)

    def unwatch(self) -> None:
        self._loop.remove_reader(self._sock)

    def first_byte(self) -> bytes | None:
        try:
            return self._sock.recv(1, socket.MSG_PEEK) or None
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError:
            return None

    async def serve(
        self, protocol: asyncio.Protocol, tls: ssl.SSLContext | None, handshake_s: float | None
    ) -> None:
        await self._loop.connect_accepted_socket(
            lambda: protocol, self._sock, ssl=tls, ssl_handshake_timeout=handshake_s
        )

    def shut(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._sock.close()


class _SocketPair(_SocketIncoming):
    """One socket of a pair."""

    async def connect(
        self, protocol: Callable[[], P], tls: ssl.SSLContext | None, name: str
    ) -> tuple[asyncio.BaseTransport, P]:
        host = None if tls is None else name
        return await self._loop.create_connection(protocol, sock=self._sock, ssl=tls, server_hostname=host)


KERNEL = KernelStreams()
