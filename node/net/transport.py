"""Frames between nodes over HTTP: small ones on one websocket a direction, bulk as POST bodies.

A link to an endpoint is opened with the first message to it. When it breaks and can not be opened again
at once, `unreachable` is called: the end of a process is noticed as soon as the system closes its sockets.
Every wait has an end, every queue a bound. What comes in is taken by `node.net.server`.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator

from aiohttp import web

from node.net.dialling import Dialler, Opened
from node.net.intake import Intake, Receive
from node.net.link import AHEAD, LIMITS, Limits, Link
from node.net.outbox import Budget
from node.net.server import Server
from node.net.tls import Tls
from node.net.traffic import Counts, phase_of
from node.net.versions import Mixed
from node.net.visits import Visits
from protocol.crypto.node_key import NodeKey
from protocol.wire import codec
from protocol.wire.ids import Key
from protocol.wire.messages import Message

ENCODED = 2
ENDING_S = 2.0

Unreachable = Callable[[str, str], Awaitable[None]]
Reconnected = Callable[[str], Awaitable[None]]


class Transport:
    """A node's server and its links. `receive` may raise RemoteProtocolError: the frame is dropped."""

    def __init__(
        self,
        receive: Receive,
        unreachable: Unreachable,
        reconnected: Reconnected,
        heavy: bool,
        tls: Tls | None,
        key: NodeKey,
        warn: Callable[[str], None],
        is_member: Callable[[Key], bool],
        limits: Limits = LIMITS,
    ) -> None:
        """`heavy`: whether building a message takes more than a few milliseconds, and so a thread.

        `tls`: None: without, whatever the addresses. `key`: this node's own, which both ends of a link show.
        `warn`: tells the owner, in a line, of what no message tells. `is_member`: whether who proved this key
        has room here that no stranger can take; it may be asked at any time.
        """
        self._heavy = heavy
        self.tls = tls
        self.limits = limits
        self.control_budget = Budget(limits.all_control_bytes, None)
        self.bulk_budget = Budget(limits.all_bulk_bytes, None)
        self.kept_budget = Budget(limits.all_kept_bytes, None)
        self._unreachable = unreachable
        self._reconnected = reconnected
        self._links: dict[str, Link] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        """Of all links, those that are ending among them."""
        self._dialler = Dialler(key, tls)
        self._encoded: deque[tuple[Message, codec.Frame]] = deque(maxlen=ENCODED)
        self.counts = Counts()
        self.intake = Intake(receive, self.counts)
        visits = Visits(key, self.intake, self.counts)
        self._server = Server(self.intake, visits, Mixed(warn), self.counts, tls, is_member)

    async def start(self, listener: socket.socket, routes: Iterable[web.RouteDef]) -> None:
        """Serve on an already bound socket. `routes`: what is answered besides frames (node.net.routes)."""
        await self._server.start(listener, routes)
        await self._dialler.start()

    async def close(self) -> None:
        """Let what is queued go out for a moment, then close every link and the server."""
        await asyncio.gather(*(link.close() for link in list(self._links.values())))
        if self._tasks:
            _, slow = await asyncio.wait(self._tasks, timeout=ENDING_S)
            for task in slow:
                task.cancel()
        await self._server.close_links()
        await self._dialler.close()
        await self._server.close()

    def send(self, endpoint: str, messages: Iterable[Message], bulk: bool = False) -> None:
        """Queue messages for an endpoint; what has no room is counted. `bulk`: as in actions.Send."""
        self._link_to(endpoint).put(messages, bulk)

    async def hand(self, endpoint: str, message: Message) -> bool:
        """Send a large message, and wait until it has gone or never will; whether it went."""
        end: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._link_to(endpoint).hand(message, end)
        return await end

    def _link_to(self, endpoint: str) -> Link:
        """The link to an endpoint, a new one if there is none."""
        link = self._links.get(endpoint)
        if link is None:
            if len(self._links) >= self.limits.links:
                min(self._links.values(), key=lambda known: known.used_s).evict()
            link = self._links[endpoint] = Link(self, endpoint)
            self._tasks.add(link.task)
            link.task.add_done_callback(self._tasks.discard)
        return link

    def encoded(self, message: Message) -> codec.Frame:
        """Its frame. What goes to all is the same message every time, and encoded once; bulk is not kept."""
        for known, frame in self._encoded:
            if known is message:
                return frame
        made = codec.encode(message)
        if not len(made.payload):
            self._encoded.append((message, made))
        return made

    def sent(self, message: Message, count: int) -> None:
        """Count what went out."""
        self.counts.sent[phase_of(message)] += count

    async def connect(self, endpoint: str) -> Opened:
        """A link to an endpoint, both ends of which have shown whose they are."""
        return await self._dialler.dial(endpoint)

    async def built(self, messages: Iterator[Message]) -> list[Message]:
        """The next messages, built off the event loop if that takes long; fewer than AHEAD at the end.

        Two at a time: the way to a thread is dear, and most that have bulk to say say one thing.
        """
        if self._heavy:
            return await asyncio.to_thread(_several, messages)
        return _several(messages)

    async def lost(self, endpoint: str, why: str) -> None:
        """A link is down and could not be opened again."""
        await self._unreachable(endpoint, why)

    async def reconnected(self, endpoint: str) -> None:
        """A link broke and was opened again: who answers there may have started anew."""
        await self._reconnected(endpoint)

    def forget(self, endpoint: str, link: Link) -> None:
        """The next message to this endpoint opens a new link."""
        if self._links.get(endpoint) is link:
            del self._links[endpoint]


def _several(messages: Iterator[Message]) -> list[Message]:
    return list(itertools.islice(messages, AHEAD))
