"""Frames between nodes over HTTP: small ones on one websocket per direction, bulk as POST bodies.

The first message to an endpoint opens a link to it. If a link breaks and cannot be reopened at once, the
transport calls `unreachable`; so a node notices the end of another process as soon as the system closes its
sockets. Every wait has a time limit, every queue a bound. `node.net.incoming.server` handles incoming frames.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from aiohttp import web

from node.net.incoming.doors import BOUNDS, MEMBER_BODY_BYTES
from node.net.incoming.server import Arriving, Server, ignored
from node.net.incoming.visits import Visits
from node.net.intake import Intake, Receive
from node.net.outbox import Budget
from node.net.outgoing.dialling import Dialler, Opened
from node.net.outgoing.link import AHEAD, BULK_TIMEOUT_S, LIMITS, Limits, Link
from node.net.tls import Tls
from node.net.traffic import Counts, Uploads, phase_of
from node.net.versions import Look, Mixed, nowhere
from node.system.streams import BoundAddress
from node.system.system import SYSTEM, System
from protocol.crypto.node_key import NodeKey
from protocol.wire import codec
from protocol.wire.ids import Key
from protocol.wire.messages import Message

ENCODED = 2
ENDING_S = 2.0

Unreachable = Callable[[str, str], Awaitable[None]]
Reconnected = Callable[[str], Awaitable[None]]


@dataclass(frozen=True)
class Callbacks:
    """What a transport tells its node, and what it asks it, at any time."""

    receive: Receive
    """Takes each incoming message and its way back. RemoteProtocolError drops the frame."""
    unreachable: Unreachable
    """Takes an endpoint whose link is down, and why."""
    reconnected: Reconnected
    """Takes an endpoint whose link broke and was opened again."""
    warn: Callable[[str], None]
    """Shows the owner a line about events that no message reports."""
    is_member: Callable[[Key], bool]
    """Whether the holder of a proved key has a place that no stranger can take."""
    is_wanted: Callable[[Message], bool] = lambda _: False
    """Whether the session of a message runs here."""
    look: Look = nowhere
    """Called when a node of another version or --tls has dialled: a named peer may be back."""
    arriving: Arriving = ignored
    """Takes a member whose bulk is on its way, and slow."""


class Transport:
    """A node's server and its links."""

    def __init__(
        self,
        callbacks: Callbacks,
        heavy: bool,
        tls: Tls | None,
        key: NodeKey,
        limits: Limits = LIMITS,
        system: System = SYSTEM,
        bulk_s: float = BULK_TIMEOUT_S,
    ) -> None:
        """Creates the transport; `start` opens it.

        Args:
            callbacks: the node that it serves.
            heavy: whether building a message takes more than a few milliseconds and therefore a thread.
            tls: None for links without TLS, whatever their addresses.
            key: this node's own; the node shows it when it dials and when it accepts a link.
            limits: the bounds of the links' queues.
            system: the computer on which it runs.
            bulk_s: the time limit for a bulk frame, here and to a peer.
        """
        self._heavy = heavy
        self.tls = tls
        self.limits = limits
        self.bulk_s = bulk_s
        self.clock = system.clock
        self.streams = system.streams
        self._tap = system.tap
        self.control_budget = Budget(limits.all_control_bytes, None)
        self.bulk_budget = Budget(limits.all_bulk_bytes, None)
        self.kept_budget = Budget(limits.all_kept_bytes, None)
        self._callbacks = callbacks
        self.is_wanted = callbacks.is_wanted
        self._links: dict[str, Link] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        """The tasks of all links, including links that are ending."""
        self._dialler = Dialler(key, tls, system)
        self._encoded: deque[tuple[Message, codec.Frame]] = deque(maxlen=ENCODED)
        self.counts = Counts()
        self.uploads = Uploads()
        self.intake = Intake(callbacks.receive, self.counts, system.tap)
        visits, mixed = Visits(key, self.intake, system), Mixed(callbacks.warn, callbacks.look)
        bounds = replace(BOUNDS, member_body_bytes=replace(MEMBER_BODY_BYTES, within_s=bulk_s))
        is_member, arriving = callbacks.is_member, callbacks.arriving
        self._server = Server(self.intake, visits, mixed, tls, is_member, bounds, system, arriving)

    async def start(self, listener: BoundAddress, routes: Iterable[web.RouteDef]) -> None:
        """Serves on an already bound socket. `routes` are those besides frames (node.net.incoming.routes)."""
        await self._server.start(listener, routes)
        await self._dialler.start()

    async def leave(self) -> None:
        """Sends queued messages for a moment, then closes every link; the other routes are still served."""
        await asyncio.gather(*(link.close() for link in list(self._links.values())))
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=ENDING_S)
            for task in self._tasks:
                task.cancel()
        await self._server.close_links()
        await self._dialler.close()

    async def close(self) -> None:
        """Leaves, and closes the server."""
        await self.leave()
        await self._server.close()

    def send(self, endpoint: str, messages: Iterable[Message], bulk: bool = False) -> None:
        """Queues messages for an endpoint and counts those without room. `bulk` is as in actions.Send."""
        self._link_to(endpoint).put(messages, bulk)

    async def hand(self, endpoint: str, message: Message) -> bool:
        """Sends a large message and waits for its end. Returns whether it was sent."""
        end: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._link_to(endpoint).hand(message, end)
        return await end

    def _link_to(self, endpoint: str) -> Link:
        """Returns the link to an endpoint, a new one if there is none."""
        link = self._links.get(endpoint)
        if link is None:
            if len(self._links) >= self.limits.links:
                min(self._links.values(), key=lambda known: known.used_s).evict()
            link = self._links[endpoint] = Link(self, endpoint)
            self._tasks[link.task] = None
            link.task.add_done_callback(self._tasks.pop)
        return link

    def encoded(self, message: Message) -> codec.Frame:
        """Returns the message's frame. A message to all peers is encoded once; bulk frames are not kept."""
        for known, frame in self._encoded:
            if known is message:
                return frame
        made = codec.encode(message)
        if not len(made.payload):
            self._encoded.append((message, made))
        return made

    def sent(self, message: Message, count: int) -> None:
        """Counts the bytes of a message that is sent now."""
        self._tap("out", message)
        self.counts.sent[phase_of(message)] += count

    async def connect(self, endpoint: str) -> Opened:
        """Opens a link to an endpoint; both ends have proved their keys."""
        return await self._dialler.dial(endpoint)

    async def built(self, messages: Iterator[Message]) -> list[Message]:
        """Builds the next messages, in a thread if that takes long; returns fewer than AHEAD at the end.

        It builds two at a time, because a thread is expensive and most senders of bulk send one message.
        """
        if self._heavy:
            return await asyncio.to_thread(_several, messages)
        return _several(messages)

    async def lost(self, endpoint: str, why: str) -> None:
        """Reports that a link is down and could not be opened again."""
        await self._callbacks.unreachable(endpoint, why)

    async def reconnected(self, endpoint: str) -> None:
        """Reports that a link broke and was opened again; the process at its far end may be a new one."""
        await self._callbacks.reconnected(endpoint)

    def forget(self, endpoint: str, link: Link) -> None:
        """Forgets a link, so that the next message to its endpoint opens a new one."""
        if self._links.get(endpoint) is link:
            del self._links[endpoint]


def _several(messages: Iterator[Message]) -> list[Message]:
    return list(itertools.islice(messages, AHEAD))
