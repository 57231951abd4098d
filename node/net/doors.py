"""The doors of a node: every connection that is accepted, from the first byte to the last.

One rule holds for all of them, whether they are silent, in a TLS handshake, slow with their headers, slow
with a body, or a websocket that does not say who it is. A connection is a `Guest`, and is in one room at a
time; a room has a bound in all and for each address, and a time after which a guest must have moved on:

    quiet --> speaking --> asking --> idle --> asking ...        a request after the other
                              |
                              +--> linking                       a websocket that has proved nothing
                              +--> watching                      one that watches the page
    any of them --> members                                      `Guest.prove`: an allow-listed key

Where a room is full the guest that was silent for longest goes, never the newest; nobody in `members` goes
for a stranger. A connection that has said nothing is a descriptor and an entry: HTTP and TLS begin with its
first byte, for these take a quarter of a megabyte. Buffers are bounded by what has arrived, not by what is
announced. The rooms themselves are in `node.net.rooms`.

What the links call:

    guest = doors.guest_of(request)
    guest.prove(key)                    the far end holds this key, and the key may be here
    ticket = doors.ticket(key)          for its POST connections; doors.forget(ticket) when the link ends
    doors.admit(guest, ticket)          a POST connection that shows one
"""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import socket
import ssl
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from aiohttp import web

from node.free_memory import give_back
from node.net.rooms import Bound, Room
from node.net.tickets import Tickets
from node.net.traffic import Counts

HEAD_S = 5.0
"""To the first byte, and from there to the end of a first request's head, TLS included."""
PROOF_S = 5.0
"""From a websocket's opening to the proof."""
REQUEST_S = 40.0
"""For a request with its answer, whatever it is: longer than its body may take."""
IDLE_S = 15.0
"""Between two requests of a stranger."""
QUIET = Bound(2048, 1024, HEAD_S)
"""Connections that have said nothing. They cost little: so many that a flood of them is held, not churned."""
SPEAKING = Bound(96, 48, HEAD_S)
"""Connections in a TLS handshake or in the head of a first request: at most 0.5 MB each."""
ASKING = Bound(128, 64, REQUEST_S)
"""Requests that are received or answered."""
IDLE = Bound(64, 32, IDLE_S)
"""Connections whose last request is answered: kept for the next one."""
LINKING = Bound(128, 64, PROOF_S)
"""Websockets that have proved nothing, each with a message of at most 320 kB."""
WATCHING = Bound(32, 32)
"""Streams of the page; the feed itself serves fewer (node.observe.sse), and lets go who does not read."""
MEMBERS = Bound(2048, 8)
"""Connections of those who have proved a key, and of one key: websockets and POST connections."""
MIB = 1024 * 1024
BODY_BYTES = Bound(24 * MIB, 16 * MIB)
"""Bytes of strangers' bodies that are in memory."""
MEMBER_BODY_BYTES = Bound(256 * MIB, 16 * MIB)
"""Bytes of members' bodies that are in memory, of one key."""
BODY_S = 30.0
"""For a body of any length, a member's too."""
BODY_GRACE_S = 3.0
"""A body is not judged by its rate before: TCP begins slowly."""
BODY_LEAST_BYTES_PER_S = 16 * 1024
"""A body that is slower than this, after the grace, is given up: 1.3 MB in BODY_S would be 44 kB/s."""
STEP_BYTES = 64 * 1024
"""A body counts in steps of so much, and each step that has arrived is progress."""
FLOOD = 1000
"""After so many guests, when all are gone, memory is given back to the system."""
AHEAD_BYTES = 64 * 1024
"""What a stranger may say while its request, which has no body, is answered."""
NEXT_BYTES = 512 * 1024
"""What a stranger may say after an answer until its next request is understood: what is read in two turns."""
SWEEP_S = 0.5
"""So often is looked for those whose time is over."""
ACCEPTS_AT_ONCE = 32
"""Connections that are accepted in one turn of the loop; then others have theirs."""
ACCEPTS_PER_S = 125.0
"""In the long run, so that a flood takes less than a tenth of a core; others wait in the system's queue."""
ACCEPTS_SAVED = 512
"""So many are accepted at once after a quiet time: a whole swarm that starts."""
PACE_S = 0.02
"""So long a flood waits before the next ones are accepted."""
ACCEPT_AGAIN_S = 0.1
"""After an error of the system in accepting, which would come again at once."""
OTHER_DESCRIPTORS = 2304
"""Files, and this node's own connections to 1,024 others, each a websocket and one that POSTs."""
IPV6_NETWORK_BITS = 64
"""Who has one address of IPv6 has this network of them: they count as one."""

ROOMS = {
    "quiet": "a connection that says nothing",
    "speaking": "a connection without a whole request",
    "asking": "a request of a stranger",
    "idle": "a connection of a stranger between requests",
    "linking": "a websocket that has proved nothing",
    "watching": "a stream of the page",
    "members": "a connection of a member",
}
"""A connection is in one of them; in words for who reads what was closed."""
NO_ROOM = "{}: closed for a newer one"
TOO_LATE = "{}: closed, for its time was over"


@dataclass(frozen=True)
class Bounds:
    """Of each room, and of bodies. Tests have small ones."""

    quiet: Bound = QUIET
    speaking: Bound = SPEAKING
    asking: Bound = ASKING
    idle: Bound = IDLE
    linking: Bound = LINKING
    watching: Bound = WATCHING
    members: Bound = MEMBERS
    body_bytes: Bound = BODY_BYTES
    member_body_bytes: Bound = MEMBER_BODY_BYTES
    body_s: float = BODY_S
    body_grace_s: float = BODY_GRACE_S
    sweep_s: float = SWEEP_S
    accepts_per_s: float = ACCEPTS_PER_S
    accepts_saved: int = ACCEPTS_SAVED

    @property
    def rooms(self) -> dict[str, Bound]:
        """Those in which connections are counted."""
        return {name: getattr(self, name) for name in ROOMS}

    @property
    def connections(self) -> int:
        """Of all rooms together."""
        return sum(bound.in_all for bound in self.rooms.values())

    def within(self, descriptors: int) -> Bounds:
        """These, or as much less as so many descriptors allow; half of them at least are for guests."""
        for_guests = max(descriptors - OTHER_DESCRIPTORS, descriptors // 2)
        if for_guests >= self.connections:
            return self
        share = for_guests / self.connections
        return replace(
            self,
            quiet=self.quiet.shrunk(share),
            speaking=self.speaking.shrunk(share),
            asking=self.asking.shrunk(share),
            idle=self.idle.shrunk(share),
            linking=self.linking.shrunk(share),
            watching=self.watching.shrunk(share),
            members=self.members.shrunk(share),
        )


BOUNDS = Bounds()


def raise_descriptors(wanted: int) -> int:
    """How many descriptors this process may have, after it has asked for as many as it wants."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft < most:
        with suppress(OSError, ValueError):  # a system may allow less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class Guest:
    """One accepted connection. Its fields are the doors' own; others call its methods."""

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
        "sock",
        "ticket",
        "transport",
    )

    def __init__(self, doors: Doors, sock: socket.socket, origin: Hashable) -> None:
        self._doors = doors
        self.origin = origin
        self.sock = sock
        self.transport: asyncio.Transport | None = None
        self.key: bytes | None = None
        self.ticket: bytes | None = None
        """What it was admitted by, if it was."""
        self.room = ""
        """The name of the room that it is in."""
        self.may_say_ahead: int | None = None
        """Bytes; None where what comes is being read."""
        self.ahead = 0
        self.is_silent = True
        """Whether it has not said its first byte, so that nothing but the doors has its socket."""
        self.is_gone = False
        self.is_refused = False

    @property
    def is_proved(self) -> bool:
        """Whether it has room among the members."""
        return self.key is not None

    def prove(self, key: bytes) -> None:
        """Its far end holds this key, and the key may be here: from now on no stranger takes its place."""
        if self.key is None and not self.is_gone:
            self.key = key
            self._doors.move(self, "members")

    def progress(self) -> None:
        """It did something whole: it is the newest of its room again."""
        self._doors.renew(self)

    def link(self) -> None:
        """It is a websocket now, which has to prove a key."""
        if not self.is_proved:
            self._doors.move(self, "linking")

    def watch(self) -> None:
        """It stays to watch the page, and says nothing more."""
        if not self.is_proved:
            self._doors.move(self, "watching", may_say_ahead=AHEAD_BYTES)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """A request of it is understood, until it is answered."""
        if not self.is_proved:
            self._doors.move(self, "asking", may_say_ahead=AHEAD_BYTES)
        try:
            yield
        finally:
            if not self.is_proved:
                ahead = None if self.is_refused else NEXT_BYTES
                self._doors.move(self, "idle", may_say_ahead=ahead)

    def refuse(self) -> None:
        """Its request is refused and the connection ends with the answer: what still comes is thrown away."""
        self.is_refused = True

    @contextmanager
    def receiving(self, length: int) -> Iterator[Callable[[int], None]]:
        """A body is read, and used; what is yielded is told how much of it has arrived."""
        if not self.is_proved:
            self.may_say_ahead = None
        body = self._doors.begin_body(self, length)
        try:
            yield body.arrived
        finally:
            self._doors.end_body(body)

    def close(self, why: str) -> None:
        """Close the connection at once, and count why."""
        self._doors.close_guest(self, why)

    def says(self, count: int) -> bool:
        """So many bytes have come; False if that is the end of it."""
        if self.may_say_ahead is not None:
            if self.ahead > self.may_say_ahead:
                self.close("a request that was not waited for: closed")
            self.ahead += count
        return not self.is_gone


class _Body:
    """What of one body has arrived. It stays in the purse that it was begun in."""

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
        """Whether all of it is here, so that only this node is slow with it."""
        return self.size >= self._length

    def arrived(self, size: int) -> None:
        """So much is here now. A step more is progress, and may be too much for others."""
        self.size = size
        steps = 1 + size // STEP_BYTES
        if steps > self.steps:
            self.steps = steps
            self._doors.hold(self, steps * STEP_BYTES)


class _Door(asyncio.Protocol):
    """Stands before aiohttp's protocol, and sees who comes, what it says and when it goes."""

    def __init__(self, guest: Guest, inner: asyncio.Protocol, left: Callable[[Guest], None]) -> None:
        self._guest = guest
        self._inner = inner
        self._left = left

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open, under TLS where that is asked for."""
        if isinstance(transport, asyncio.Transport):
            self._guest.transport = transport
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Something came."""
        if self._guest.says(len(data)):
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """The far side says nothing more."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """The far side does not read."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """It reads again."""
        self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed."""
        self._inner.connection_lost(error)
        self._left(self._guest)


class Doors:
    """All who connect to one server."""

    def __init__(self, counts: Counts, bounds: Bounds = BOUNDS) -> None:
        self._counts = counts
        self._bounds = bounds.within(raise_descriptors(bounds.connections + OTHER_DESCRIPTORS))
        self._rooms: dict[str, Room[Guest]] = {name: Room(each) for name, each in self._bounds.rooms.items()}
        self._strangers_bodies: Room[_Body] = Room(self._bounds.body_bytes)
        self._members_bodies: Room[_Body] = Room(self._bounds.member_body_bytes)
        self._tickets = Tickets(self._bounds.members.in_all)
        self._admitted: dict[bytes, set[Guest]] = {}
        self._guests: dict[asyncio.Protocol, Guest] = {}
        self._handovers: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._server: Callable[[], asyncio.Protocol] | None = None
        self._tls: ssl.SSLContext | None = None
        self._listener: socket.socket | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._may_accept = float(self._bounds.accepts_saved)
        self._counted_at_s = self._loop.time()
        self._since_flood = 0
        """How many guests went since memory was given back last."""
        self._stalled_s = 0.0
        """How long the loop did not turn: nobody is late for that."""

    # -- what the server and the links call -----------------------------------------------------------

    def open(
        self,
        listener: socket.socket,
        server: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
    ) -> None:
        """Accept connections; `server` makes the protocol that takes one over (aiohttp's web.Server)."""
        listener.setblocking(False)
        self._listener, self._server, self._tls = listener, server, tls
        self._loop.add_reader(listener, self._accept)

    async def shut(self) -> None:
        """Listen no more, send away who has said nothing, and wait for those who are being taken over."""
        if self._pause is not None:
            self._pause.cancel()
        if self._listener is not None and self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)
            self._listener.close()
        self._listener = None
        for room in ("quiet", "speaking"):
            for guest in self._rooms[room]:
                self._send_away(guest)
        while self._handovers:
            await asyncio.wait(self._handovers)

    def close(self) -> None:
        """Close whoever is still here, after the server has said goodbye."""
        for room in self._rooms.values():
            for guest in room:
                self._send_away(guest)
        if self._sweeping is not None:
            self._sweeping.cancel()

    def guest_of(self, request: web.BaseRequest) -> Guest:
        """Whose request it is."""
        return self._guests[request.protocol]

    def ticket(self, key: bytes) -> bytes:
        """A new ticket for the POST connections of a link whose far end has proved this key."""
        return self._tickets.issue(key)

    def owner(self, ticket: bytes) -> bytes | None:
        """The key that a ticket stands for; None if it is worth nothing."""
        return self._tickets.owner(ticket)

    def admit(self, guest: Guest, ticket: bytes) -> bytes | None:
        """A guest has shown a ticket: it is proved for as long as the ticket is worth something."""
        key = self._tickets.owner(ticket)
        if key is not None:
            guest.prove(key)
            if guest.key == key and guest.ticket is None and not guest.is_gone:
                guest.ticket = ticket
                self._admitted.setdefault(ticket, set()).add(guest)
        return key

    def forget(self, ticket: bytes) -> None:
        """The link has ended: its ticket is worth nothing any more, and who came by it goes."""
        self._tickets.forget(ticket)
        for guest in tuple(self._admitted.get(ticket, ())):
            self._send_away(guest)

    @property
    def counts(self) -> dict[str, int]:
        """How many guests are in each room, and how many bytes of bodies are here."""
        bodies = {
            "body_bytes": self._strangers_bodies.weight,
            "member_body_bytes": self._members_bodies.weight,
        }
        return {**{name: len(room) for name, room in self._rooms.items()}, **bodies}

    # -- accepting ------------------------------------------------------------------------------------

    def _accept(self) -> None:
        """The listener can be read: somebody is there."""
        for _ in range(min(ACCEPTS_AT_ONCE, self._affordable())):
            if self._listener is None:
                return
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._rest(error)
                return
            self._may_accept -= 1
            sock.setblocking(False)
            guest = Guest(self, sock, origin_of(address[0]))
            self._loop.add_reader(sock, self._speaks, guest)
            self.move(guest, "quiet")

    def _affordable(self) -> int:
        """How many may be accepted now; where none may, the listener is looked at a little later."""
        now_s = self._loop.time()
        saved = self._may_accept + (now_s - self._counted_at_s) * self._bounds.accepts_per_s
        self._may_accept, self._counted_at_s = min(saved, self._bounds.accepts_saved), now_s
        if self._may_accept < 1:
            self._look_away(PACE_S)
        return int(self._may_accept)

    def _rest(self, error: OSError) -> None:
        """Accepting fails, as where no descriptor is left: the oldest stranger goes, and then once more."""
        self._counts.drop(f"a connection that could not be accepted: {error.strerror}")
        for name in ("quiet", "speaking", "idle", "linking", "asking"):
            oldest = next(iter(self._rooms[name]), None)
            if oldest is not None:
                oldest.close(NO_ROOM.format(name))
                break
        self._look_away(ACCEPT_AGAIN_S)

    def _look_away(self, for_s: float) -> None:
        """Accept nobody for a moment."""
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._pause = self._loop.call_later(for_s, self._accept_again)

    def _accept_again(self) -> None:
        if self._listener is not None:
            self._loop.add_reader(self._listener, self._accept)

    def _speaks(self, guest: Guest) -> None:
        """The first byte of a connection has come, or its end."""
        try:
            first = guest.sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first:
            self._send_away(guest)
            return
        self._loop.remove_reader(guest.sock)
        guest.is_silent = False
        if not guest.is_proved:
            self.move(guest, "speaking")
        task = self._loop.create_task(self._hand_over(guest))
        self._handovers.add(task)
        task.add_done_callback(self._handovers.discard)

    async def _hand_over(self, guest: Guest) -> None:
        """Let aiohttp have it, after the TLS handshake."""
        if self._server is None or guest.is_gone:
            guest.sock.close()
            return
        inner = self._server()
        self._guests[inner] = guest
        door = _Door(guest, inner, lambda guest: self._left(guest, inner))
        within_s = None if self._tls is None else self._bounds.speaking.within_s
        try:
            await self._loop.connect_accepted_socket(
                lambda: door, guest.sock, ssl=self._tls, ssl_handshake_timeout=within_s
            )
        except OSError:  # what TLS finds wrong is one, and so is a handshake that takes too long
            if not guest.is_gone:
                self._counts.drop("a connection without a TLS handshake")
            self._left(guest, inner)
            guest.sock.close()
            return
        if guest.is_gone and guest.transport is not None:
            guest.transport.abort()

    # -- rooms ----------------------------------------------------------------------------------------

    def move(self, guest: Guest, name: str, may_say_ahead: int | None = None) -> None:
        """A guest is in this room now, as the newest; who has no more room in it is closed."""
        if guest.is_gone:
            return
        if guest.room != name and guest.room:
            self._rooms[guest.room].leave(guest)
        guest.room, guest.may_say_ahead, guest.ahead = name, may_say_ahead, 0
        self.renew(guest)
        self._wake()

    def renew(self, guest: Guest) -> None:
        """A guest is the newest of its room."""
        if guest.is_gone:
            return
        origin = guest.key if guest.key is not None else guest.origin
        for other in self._rooms[guest.room].enter(guest, origin, self._now_s()):
            other.close(NO_ROOM.format(ROOMS[guest.room]))

    def close_guest(self, guest: Guest, why: str) -> None:
        """Close one, and count why."""
        if not guest.is_gone:
            self._counts.drop(why)
            self._send_away(guest)

    def _send_away(self, guest: Guest) -> None:
        """Close a connection, wherever it stands."""
        if guest.is_gone:
            return
        self._forget(guest)
        if guest.transport is not None:
            guest.transport.abort()
        elif guest.is_silent:
            self._loop.remove_reader(guest.sock)
            guest.sock.close()
        else:  # it is being taken over, which ends with what it reads: nothing more
            with suppress(OSError):
                guest.sock.shutdown(socket.SHUT_RDWR)

    def _forget(self, guest: Guest) -> None:
        guest.is_gone = True
        self._since_flood += 1
        self._rooms[guest.room].leave(guest)
        if guest.ticket is not None:
            others = self._admitted[guest.ticket]
            others.discard(guest)
            if not others:
                del self._admitted[guest.ticket]

    def _left(self, guest: Guest, inner: asyncio.Protocol) -> None:
        """A connection is closed, by whomever."""
        self._guests.pop(inner, None)
        if not guest.is_gone:
            self._forget(guest)

    # -- bodies ---------------------------------------------------------------------------------------

    def begin_body(self, guest: Guest, length: int) -> _Body:
        """A body of this guest is going to be read."""
        purse = self._members_bodies if guest.is_proved else self._strangers_bodies
        body = _Body(self, guest, purse, self._now_s(), length)
        body.arrived(0)
        return body

    def hold(self, body: _Body, size: int) -> None:
        """A body has so many bytes in memory; whoever was silent for longest makes room."""
        if body.guest.is_gone:
            return
        for other in body.purse.enter(body, body.origin, self._now_s(), size):
            other.guest.close(NO_ROOM.format("bytes of bodies"))
        body.guest.progress()
        self._wake()

    def end_body(self, body: _Body) -> None:
        """It has been read, or given up."""
        body.purse.leave(body)

    def _slow_bodies(self, now_s: float) -> Iterator[_Body]:
        for body in (*self._strangers_bodies, *self._members_bodies):
            lasts_s = now_s - body.begun_s
            least = BODY_LEAST_BYTES_PER_S * (lasts_s - self._bounds.body_grace_s)
            if not body.is_whole and (lasts_s >= self._bounds.body_s or body.size < least):
                yield body

    # -- time -----------------------------------------------------------------------------------------

    def _now_s(self) -> float:
        """Seconds in which this node listened."""
        return self._loop.time() - self._stalled_s

    def _wake(self) -> None:
        """There is somebody whose time may be over."""
        if self._sweeping is None:
            due_s = self._loop.time() + self._bounds.sweep_s
            self._sweeping = self._loop.call_at(due_s, self._sweep, due_s)

    def _sweep(self, due_s: float) -> None:
        """Close those whose time is over. What this node was late itself is nobody's fault."""
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
"""Where an application has them."""


def guest_of(request: web.Request) -> Guest | None:
    """Whose request it is; None where a server without doors answers."""
    doors = request.app.get(DOORS)
    return None if doors is None else doors.guest_of(request)


def origin_of(address: str) -> str:
    """What counts as one: an address of IPv4, a network of IPv6."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((int(found), IPV6_NETWORK_BITS), strict=False))
