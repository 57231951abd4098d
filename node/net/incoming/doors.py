"""The doors of a node: they own every accepted connection from its first byte to its last.

One rule holds for all connections: silent ones, those in a TLS handshake, those with slow headers or a slow
body, and websockets that do not identify themselves. Each connection is a `Guest` and is in one room at a
time. A room bounds its guests in total and per address, and limits the time that a guest may stay in it:

    quiet --> speaking --> asking --> idle --> asking ...        one request after another
                              |
                              +--> linking                       a websocket that has proved nothing
                              +--> watching                      a stream of the page
    any of them --> members                                      `Guest.prove`: an allow-listed key

A stream that a relay brought waits in `relayed` in place of `quiet`, `speaking` and `linking`: it comes from
a member, by the relay's word, and may be slow.

When a room is full, the doors close the guest that was silent for the longest time, never the newest one.
They close no guest in `members` to make room for a stranger. A connection that has sent nothing costs a
descriptor and an entry: HTTP and TLS, which take a quarter of a megabyte, start with its first byte. Bounds
on buffers count the bytes that have arrived, not the announced length. `node.net.incoming.rooms` implements
the rooms.

The links call:

    guest = doors.guest_of(request)
    guest.prove(key)                    the far end holds this key, and the key is allowed here
    ticket = doors.ticket(key)          for its POST connections; doors.forget(ticket) when the link ends
    doors.admit(guest, ticket)          a POST connection has shown this ticket
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import resource
import ssl
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, cast, get_type_hints

from aiohttp import web

from node.net.aborting import abort
from node.net.incoming.rooms import Bound, Room
from node.net.incoming.tickets import Tickets
from node.net.intake import RELAYED_OPEN_S
from node.net.traffic import Counts
from node.net.versions import Look, nowhere
from node.system.free_memory import give_back
from node.system.streams import BoundAddress, Incoming, Listener
from node.system.system import SYSTEM, System
from protocol.relay.buckets import Bucket, Rate

HEAD_S = 5.0
"""Time limit for the first byte, and again for the rest of the first request's head, TLS included."""
PROOF_S = 5.0
"""Time limit from the opening of a websocket to its proof."""
REQUEST_S = 40.0
"""Time limit for any request and its answer; longer than the limit for a body."""
IDLE_S = 15.0
"""Time limit between two requests of a stranger."""
QUIET = Bound(2048, 1024, HEAD_S)
"""Connections that have sent nothing. They cost little, so the bound is high enough to hold a flood."""
SPEAKING = Bound(96, 48, HEAD_S)
"""Connections in a TLS handshake or in the head of a first request: at most 0.5 MB each."""
ASKING = Bound(128, 64, REQUEST_S)
"""Requests that the node is receiving or answering."""
IDLE = Bound(64, 32, IDLE_S)
"""Connections whose last request was answered, kept open for the next one."""
RELAYED = Bound(256, 16, RELAYED_OPEN_S)
"""Streams that a relay brought, until a first request, and websockets among them until their proof."""
LINKING = Bound(128, 64, PROOF_S)
"""Websockets that have proved nothing, each with a message of at most 320 kB."""
WATCHING = Bound(32, 32)
"""Streams of the page. The feed itself serves fewer and drops readers that do not read (node.observe.sse)."""
MEMBERS = Bound(2048, 8)
"""Connections that have proved a key, websockets and POST connections: in total, and per key."""
MIB = 1024 * 1024
BODY_S = 30.0
"""Time limit for a body of any length; for members' bodies, the node may set a longer one."""
RELAYED_BODY_S = 300.0
"""The same, at least, for bodies that a relay brings."""
BODY_BYTES = Bound(24 * MIB, 16 * MIB, BODY_S)
"""Bytes of strangers' bodies in memory: in total, and per address."""
MEMBER_BODY_BYTES = Bound(256 * MIB, 16 * MIB, BODY_S)
"""Bytes of members' bodies in memory: in total, and per key."""
BODY_GRACE_S = 3.0
"""The minimum rate of a body applies only after this time, because TCP starts slowly."""
BODY_LEAST_BYTES_PER_S = 16 * 1024
"""The node gives up a body that is slower than this after the grace: 1.3 MB in BODY_S would be 44 kB/s."""
MEMBER_BODY_LEAST_BYTES_PER_S = 1000
"""The same for members' bodies: several of them share a slow line, or come through a relay."""
STEP_BYTES = 64 * 1024
"""A body counts in steps of this size, and each step that has arrived is progress."""
FLOOD = 1000
"""After this many guests, once all are gone, the node returns free memory to the system."""
AHEAD_BYTES = 64 * 1024
"""How much a stranger may send while the node answers its request, which has no body."""
NEXT_BYTES = 512 * 1024
"""How much a stranger may send after an answer until its next request is parsed: what two turns read."""
SWEEP_S = 0.5
"""Interval at which the doors look for guests whose time is over."""
ACCEPTS_AT_ONCE = 32
"""The most connections accepted in one turn of the event loop; then other tasks run."""
ACCEPTS_PER_S = 100.0
"""Long-run rate, so that a flood takes about a tenth of a core, with TLS; the rest wait in the system."""
ACCEPTS_SAVED = 512
"""The burst that is accepted at once after a quiet time, such as a whole swarm that starts."""
PACE_S = 0.02
"""Pause before the next connections of a flood are accepted."""
ACCEPT_AGAIN_S = 0.1
"""Pause after the system failed to accept a connection; without it the error would recur at once."""
OTHER_DESCRIPTORS = 2304
"""Descriptors for files and for this node's connections to 1,024 others: a websocket and a POST each."""
IPV6_NETWORK_BITS = 64
"""The owner of one IPv6 address usually has a whole network of this prefix length, so it counts as one."""

_TLS_RECORD = b"\x16"
"""With this byte a TLS handshake begins (RFC 8446, section 5.1), and no HTTP request."""
NO_ROOM = "{}: closed for a newer one"
TOO_LATE = "{}: closed, for its time was over"


@dataclass(frozen=True)
class Rooms:
    """The rooms and their bounds, with what a guest of each is; every connection is in one."""

    quiet: Annotated[Bound, "a connection that says nothing"] = QUIET
    speaking: Annotated[Bound, "a connection without a whole request"] = SPEAKING
    relayed: Annotated[Bound, "a relayed stream without a whole request"] = RELAYED
    asking: Annotated[Bound, "a request of a stranger"] = ASKING
    idle: Annotated[Bound, "a connection of a stranger between requests"] = IDLE
    linking: Annotated[Bound, "a websocket that has proved nothing"] = LINKING
    watching: Annotated[Bound, "a stream of the page"] = WATCHING
    members: Annotated[Bound, "a connection of a member"] = MEMBERS

    @property
    def by_name(self) -> dict[str, Bound]:
        """The bound of each room."""
        return {name: getattr(self, name) for name in ROOMS}

    @property
    def connections(self) -> int:
        """The bound on connections of all rooms together."""
        return sum(bound.in_all for bound in self.by_name.values())


ROOMS: dict[str, str] = {
    name: kind.__metadata__[0] for name, kind in get_type_hints(Rooms, include_extras=True).items()
}
"""What a guest of each room is, in words; they appear in the counts of closed connections."""


@dataclass(frozen=True)
class Bounds:
    """The bounds of rooms and bodies. Tests use small ones."""

    rooms: Rooms = Rooms()
    body_bytes: Bound = BODY_BYTES
    member_body_bytes: Bound = MEMBER_BODY_BYTES
    body_grace_s: float = BODY_GRACE_S
    sweep_s: float = SWEEP_S
    accepts_per_s: float = ACCEPTS_PER_S
    accepts_saved: int = ACCEPTS_SAVED

    def within(self, descriptors: int) -> Bounds:
        """Returns these bounds, scaled down to fit `descriptors`; at least half of them are for guests."""
        for_guests = max(descriptors - OTHER_DESCRIPTORS, descriptors // 2)
        share = for_guests / self.rooms.connections
        if share >= 1:
            return self
        shrunk = {name: bound.shrunk(share) for name, bound in self.rooms.by_name.items()}
        return replace(self, rooms=Rooms(**shrunk))


BOUNDS = Bounds()


def raise_descriptors(wanted: int) -> int:
    """Asks the system for `wanted` descriptors and returns how many this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft < most:
        with suppress(OSError, ValueError):  # a system may allow less than its hard limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class Guest:
    """One accepted connection. Only the doors use its fields; others call its methods."""

    __slots__ = (
        "_doors",
        "ahead",
        "is_gone",
        "is_refused",
        "is_silent",
        "key",
        "may_say_ahead",
        "origin",
        "room",
        "stream",
        "ticket",
        "transport",
    )

    def __init__(self, doors: Doors, stream: Incoming, origin: Hashable) -> None:
        self._doors = doors
        self.origin = origin
        self.stream = stream
        self.transport: asyncio.Transport | None = None
        self.key: bytes | None = None
        """The key that it has proved."""
        self.ticket: bytes | None = None
        """The ticket that admitted the connection, if any."""
        self.room = ""
        """The name of the guest's current room."""
        self.may_say_ahead: int | None = None
        """How many bytes it may send unread; None while the node reads what arrives."""
        self.ahead = 0
        self.is_silent = True
        """Whether its first byte is still missing, so that only the doors use its stream."""
        self.is_gone = False
        self.is_refused = False

    @property
    def is_proved(self) -> bool:
        """Whether the connection has proved a key and counts as a member's."""
        return self.key is not None

    @property
    def is_relayed(self) -> bool:
        """Whether a relay brought it, from a member by the relay's word."""
        return self.stream.key is not None

    def prove(self, key: bytes) -> None:
        """Moves the connection to `members`, since its far end holds `key`; no stranger can displace it."""
        if self.key is None and not self.is_gone:
            self.key = key
            self._doors.move(self, "members")

    def progress(self) -> None:
        """Makes the guest the newest of its room again, because it completed a step."""
        self._doors.renew(self)

    def link(self) -> None:
        """Moves the connection to `linking`, or `relayed`: it is a websocket now and has to prove a key."""
        if not self.is_proved:
            self._doors.move(self, "relayed" if self.is_relayed else "linking")

    def watch(self) -> None:
        """Moves the connection to `watching`: it streams the page and sends nothing more."""
        if not self.is_proved:
            self._doors.move(self, "watching", may_say_ahead=AHEAD_BYTES)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Keeps the guest in `asking` from the parsed request to its answer, then moves it to `idle`."""
        if not self.is_proved:
            self._doors.move(self, "asking", may_say_ahead=AHEAD_BYTES)
        try:
            yield
        finally:
            if not self.is_proved:
                ahead = None if self.is_refused else NEXT_BYTES
                self._doors.move(self, "idle", may_say_ahead=ahead)

    def refuse(self) -> None:
        """Marks the request as refused: the connection ends with the answer, further input is discarded."""
        self.is_refused = True

    @contextmanager
    def receiving(self, length: int) -> Iterator[Callable[[int], None]]:
        """Accounts for a body of `length` bytes. Yields a function to call with the bytes received so far."""
        if not self.is_proved:
            self.may_say_ahead = None
        body = self._doors.begin_body(self, length)
        try:
            yield body.arrived
        finally:
            self._doors.end_body(body)

    def close(self, why: str) -> None:
        """Closes the connection at once and counts the reason."""
        self._doors.close_guest(self, why)

    def says(self, count: int) -> bool:
        """Counts `count` received bytes. Returns False if the connection is closed."""
        if self.may_say_ahead is not None:
            if self.ahead > self.may_say_ahead:
                self.close("a request that was not waited for: closed")
            self.ahead += count
        return not self.is_gone


class _Body:
    """How much of one body has arrived. It stays in the purse (a `Room` of bytes) in which it began."""

    __slots__ = ("_doors", "_length", "begun_s", "guest", "origin", "purse", "size", "steps")

    def __init__(self, doors: Doors, guest: Guest, purse: Room[_Body], begun_s: float, length: int) -> None:
        self._doors = doors
        self.guest = guest
        self.purse = purse
        self.origin = guest.key if guest.key is not None else guest.origin
        self.begun_s = begun_s
        self._length = length
        self.size = 0
        self.steps = 0

    @property
    def is_whole(self) -> bool:
        """Whether the whole body has arrived, so that any further delay is this node's own."""
        return self.size >= self._length

    def arrived(self, size: int) -> None:
        """Records that `size` bytes have arrived. Each new step is progress and may displace other bodies."""
        self.size = size
        steps = 1 + size // STEP_BYTES
        if steps > self.steps:
            self.steps = steps
            self._doors.hold(self, steps * STEP_BYTES)


class _Door(asyncio.Protocol):
    """Wraps aiohttp's protocol and observes when a connection opens, sends data and closes."""

    def __init__(self, guest: Guest, inner: asyncio.Protocol, left: Callable[[Guest], None]) -> None:
        self._guest = guest
        self._inner = inner
        self._left = left

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open, with TLS if the node uses it."""
        self._guest.transport = cast(
            "asyncio.Transport", transport
        )  # other event loops have classes of their own
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Passes data on unless the guest is closed."""
        if self._guest.says(len(data)):
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """The far side sends nothing more."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """The far side does not read."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The far side reads again."""
        self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed."""
        self._inner.connection_lost(error)
        self._left(self._guest)


class Doors:
    """All connections to one server."""

    def __init__(
        self, counts: Counts, bounds: Bounds = BOUNDS, system: System = SYSTEM, look: Look = nowhere
    ) -> None:
        """`look` is called when a far end begins as TLS where there is none here, or the other way round."""
        self._counts = counts
        self._look = look
        self._streams = system.streams
        self._bounds = bounds.within(raise_descriptors(bounds.rooms.connections + OTHER_DESCRIPTORS))
        rooms = self._bounds.rooms
        self._rooms: dict[str, Room[Guest]] = {name: Room(each) for name, each in rooms.by_name.items()}
        self._strangers_bodies: Room[_Body] = Room(self._bounds.body_bytes)
        self._members_bodies: Room[_Body] = Room(self._bounds.member_body_bytes)
        self._tickets = Tickets(rooms.members.in_all, system.entropy)
        self._admitted: dict[bytes, dict[Guest, None]] = {}
        self._guests: dict[asyncio.Protocol, Guest] = {}
        self._handovers: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._looking: asyncio.Future[None] = self._loop.create_future()
        self._looking.set_result(None)
        self._server: Callable[[], asyncio.Protocol] | None = None
        self._tls: ssl.SSLContext | None = None
        self._relayed_tls: ssl.SSLContext | None = None
        self._listener: Listener | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        accepts = Rate(self._bounds.accepts_saved, self._bounds.accepts_per_s)
        self._accepts = Bucket(accepts, self._loop.time())
        self._since_flood = 0
        """How many guests have left since the node last returned memory to the system."""
        self._stalled_s = 0.0
        """How long the event loop was blocked; this time counts against no guest."""

    # -- what the server and the links call -----------------------------------------------------------

    def open(
        self,
        bound: BoundAddress,
        server: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        relayed_tls: ssl.SSLContext | None = None,
    ) -> None:
        """Accepts connections, with `tls`, and streams that relays bring, with `relayed_tls`.

        `server` makes the protocol that handles one (aiohttp's web.Server).
        """
        self._server, self._tls, self._relayed_tls = server, tls, relayed_tls
        self._listener = self._streams.listen(bound)
        self._listener.watch(self._accept)

    async def shut(self) -> None:
        """Stops listening, closes guests without a whole request and waits for pending handovers."""
        if self._pause is not None:
            self._pause.cancel()
        if self._listener is not None:
            self._listener.close()
        self._listener = None
        for room in ("quiet", "speaking", "relayed"):
            for guest in self._rooms[room]:
                self._send_away(guest)
        while self._handovers:
            await asyncio.wait(self._handovers)

    def close(self) -> None:
        """Closes every remaining guest, after the server has said goodbye."""
        for room in self._rooms.values():
            for guest in room:
                self._send_away(guest)
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._looking.cancel()

    def guest_of(self, request: web.BaseRequest) -> Guest:
        """Returns the guest that sent this request."""
        return self._guests[request.protocol]

    def ticket(self, key: bytes) -> bytes:
        """Issues a ticket for the POST connections of a link whose far end has proved this key."""
        return self._tickets.issue(key)

    def owner(self, ticket: bytes) -> bytes | None:
        """Returns the key that a ticket stands for; None if the ticket is invalid."""
        return self._tickets.owner(ticket)

    def admit(self, guest: Guest, ticket: bytes) -> bytes | None:
        """Treats a guest that has shown a ticket as proved while the ticket is valid.

        Returns the key that the ticket stands for; None if the ticket is invalid.
        """
        key = self._tickets.owner(ticket)
        if key is not None:
            guest.prove(key)
            if guest.key == key and guest.ticket is None and not guest.is_gone:
                guest.ticket = ticket
                self._admitted.setdefault(ticket, {})[guest] = None
        return key

    def forget(self, ticket: bytes) -> None:
        """Invalidates the ticket of a link that has ended and closes the guests that it admitted."""
        self._tickets.forget(ticket)
        for guest in tuple(self._admitted.get(ticket, ())):
            self._send_away(guest)

    @property
    def counts(self) -> dict[str, int]:
        """The number of guests in each room and the bytes of bodies in memory."""
        bodies = {
            "body_bytes": self._strangers_bodies.weight,
            "member_body_bytes": self._members_bodies.weight,
        }
        return {**{name: len(room) for name, room in self._rooms.items()}, **bodies}

    # -- accepting ------------------------------------------------------------------------------------

    def _accept(self) -> None:
        """Accepts the connections that wait at the listener, as far as the rate allows."""
        for _ in range(min(ACCEPTS_AT_ONCE, self._affordable())):
            if self._listener is None:
                return
            try:
                stream = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._rest(error)
                return
            self._accepts.take(1, self._loop.time())
            guest = Guest(self, stream, stream.key or origin_of(stream.address))
            stream.watch(partial(self._speaks, guest))
            self.move(guest, "relayed" if guest.is_relayed else "quiet")

    def _affordable(self) -> int:
        """Returns how many connections may be accepted now; if none, pauses the listener for PACE_S."""
        left = self._accepts.left(self._loop.time())
        if left < 1:
            self._look_away(PACE_S)
        return int(left)

    def _rest(self, error: OSError) -> None:
        """After a failed accept, as when no descriptor is left, closes the oldest stranger; retries later."""
        self._counts.drop(f"a connection that could not be accepted: {error.strerror}")
        for name in ("quiet", "speaking", "idle", "linking", "asking", "relayed"):
            oldest = next(iter(self._rooms[name]), None)
            if oldest is not None:
                oldest.close(NO_ROOM.format(name))
                break
        self._look_away(ACCEPT_AGAIN_S)

    def _look_away(self, for_s: float) -> None:
        """Stops accepting for `for_s` seconds."""
        if self._listener is not None:
            self._listener.unwatch()
            self._pause = self._loop.call_later(for_s, self._accept_again)

    def _accept_again(self) -> None:
        if self._listener is not None:
            self._listener.watch(self._accept)

    def _speaks(self, guest: Guest) -> None:
        """Handles the first byte of a connection, or its end."""
        first = guest.stream.first_byte()
        if first is None:
            self._send_away(guest)
        if not first:
            return
        guest.stream.unwatch()
        guest.is_silent = False
        if not guest.is_proved and not guest.is_relayed:
            self.move(guest, "speaking")
        task = self._loop.create_task(self._hand_over(guest))
        self._handovers.add(task)
        task.add_done_callback(self._handovers.discard)
        if (first == _TLS_RECORD) is (self._tls_of(guest) is None) and self._looking.done():
            self._looking = asyncio.ensure_future(self._look())

    async def _hand_over(self, guest: Guest) -> None:
        """Hands the connection to aiohttp after the TLS handshake."""
        if self._server is None or guest.is_gone:
            guest.stream.close()
            return
        inner = self._server()
        self._guests[inner] = guest
        door = _Door(guest, inner, lambda guest: self._left(guest, inner))
        tls, rooms = self._tls_of(guest), self._bounds.rooms
        within_s = (rooms.relayed if guest.is_relayed else rooms.speaking).within_s
        try:
            await guest.stream.serve(door, tls, None if tls is None else within_s)
        except OSError:  # TLS errors and a handshake timeout are OSErrors, too
            if not guest.is_gone:
                self._counts.drop("a connection without a TLS handshake")
            self._left(guest, inner)
            guest.stream.close()
            return
        if guest.is_gone and guest.transport is not None:
            abort(guest.transport)

    def _tls_of(self, guest: Guest) -> ssl.SSLContext | None:
        return self._relayed_tls if guest.is_relayed else self._tls

    # -- rooms ----------------------------------------------------------------------------------------

    def move(self, guest: Guest, name: str, may_say_ahead: int | None = None) -> None:
        """Moves a guest to a room as its newest, and closes the guests that exceed the room's bounds."""
        if guest.is_gone:
            return
        if guest.room != name and guest.room:
            self._rooms[guest.room].leave(guest)
        guest.room, guest.may_say_ahead, guest.ahead = name, may_say_ahead, 0
        self.renew(guest)
        self._wake()

    def renew(self, guest: Guest) -> None:
        """Makes a guest the newest of its room."""
        if guest.is_gone:
            return
        origin = guest.key if guest.key is not None else guest.origin
        for other in self._rooms[guest.room].enter(guest, origin, self._now_s()):
            other.close(NO_ROOM.format(ROOMS[guest.room]))

    def close_guest(self, guest: Guest, why: str) -> None:
        """Closes a guest and counts the reason."""
        if not guest.is_gone:
            self._counts.drop(why)
            self._send_away(guest)

    def _send_away(self, guest: Guest) -> None:
        """Closes a connection in any stage of its life."""
        if guest.is_gone:
            return
        self._forget(guest)
        if guest.transport is not None:
            abort(guest.transport)
        elif guest.is_silent:
            guest.stream.unwatch()
            guest.stream.close()
        else:  # the handover is pending; it ends when it reads the end of the stream
            guest.stream.shut()

    def _forget(self, guest: Guest) -> None:
        guest.is_gone = True
        self._since_flood += 1
        self._rooms[guest.room].leave(guest)
        if guest.ticket is not None:
            others = self._admitted[guest.ticket]
            others.pop(guest, None)
            if not others:
                del self._admitted[guest.ticket]

    def _left(self, guest: Guest, inner: asyncio.Protocol) -> None:
        """Forgets a connection that either side has closed."""
        self._guests.pop(inner, None)
        if not guest.is_gone:
            self._forget(guest)

    # -- bodies ---------------------------------------------------------------------------------------

    def begin_body(self, guest: Guest, length: int) -> _Body:
        """Starts to account for a body of this guest."""
        purse = self._members_bodies if guest.is_proved else self._strangers_bodies
        body = _Body(self, guest, purse, self._now_s(), length)
        body.arrived(0)
        return body

    def hold(self, body: _Body, size: int) -> None:
        """Books `size` bytes for a body; closes the guests that were silent longest if memory is exceeded."""
        if body.guest.is_gone:
            return
        for other in body.purse.enter(body, body.origin, self._now_s(), size):
            other.guest.close(NO_ROOM.format("bytes of bodies"))
        body.guest.progress()
        self._wake()

    def end_body(self, body: _Body) -> None:
        """Releases a body that was read or given up."""
        body.purse.leave(body)

    def _slow_bodies(self, now_s: float) -> Iterator[_Body]:
        for purse, rate in (
            (self._strangers_bodies, BODY_LEAST_BYTES_PER_S),
            (self._members_bodies, MEMBER_BODY_LEAST_BYTES_PER_S),
        ):
            within_s = math.inf if purse.bound.within_s is None else purse.bound.within_s
            for body in purse:
                lasts_s = now_s - body.begun_s
                least = rate * (lasts_s - self._bounds.body_grace_s)
                most_s = max(within_s, RELAYED_BODY_S) if body.guest.is_relayed else within_s
                if not body.is_whole and (lasts_s >= most_s or body.size < least):
                    yield body

    # -- time -----------------------------------------------------------------------------------------

    def _now_s(self) -> float:
        """Returns the loop's time in seconds, less the time in which the loop was blocked."""
        return self._loop.time() - self._stalled_s

    def _wake(self) -> None:
        """Schedules a sweep, unless one is scheduled."""
        if self._sweeping is None:
            due_s = self._loop.time() + self._bounds.sweep_s
            self._sweeping = self._loop.call_at(due_s, self._sweep, due_s)

    def _sweep(self, due_s: float) -> None:
        """Closes guests whose time is over. A delay of this node's own loop does not count against them."""
        self._sweeping = None
        self._stalled_s += max(0.0, self._loop.time() - due_s - self._bounds.sweep_s)
        now_s = self._now_s()
        for name, room in self._rooms.items():
            for guest in room.overdue(now_s):
                guest.close(TOO_LATE.format(ROOMS[name]))
        for body in self._slow_bodies(now_s):
            body.guest.close("a body that is too slow: closed")
        timed = (room for room in self._rooms.values() if room.bound.within_s is not None)
        if any(len(room) for room in timed) or self._strangers_bodies or self._members_bodies:
            self._wake()
        elif self._since_flood >= FLOOD:
            self._since_flood = 0
            self._loop.run_in_executor(None, give_back)


DOORS = web.AppKey("DOORS", Doors)
"""The key under which an application holds its doors."""


def guest_of(request: web.Request) -> Guest | None:
    """Returns the guest that sent this request; None if the server has no doors."""
    doors = request.app.get(DOORS)
    return None if doors is None else doors.guest_of(request)


def origin_of(address: str) -> str:
    """Returns what counts as one origin: an IPv4 address, or an IPv6 network."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found), IPV6_NETWORK_BITS), strict=False))
