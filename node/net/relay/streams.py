"""Streams to keys, over relays: what a node whose peers were invited uses in place of TCP connections.

An endpoint that stands for a key is reached by a relay, any other as before. Streams that members open here
are accepted beside the connections to the node's own address. All state of the streams is in
`protocol.relay.streams`; here are the carriers, the local ends and the timer.
"""

from __future__ import annotations

import asyncio
import math
import os
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from node.cli.logs import Log
from node.net.relay.carrier import CarrierTask
from node.net.relay.client import NoWay, RelayClient
from node.net.relay.local_end import LocalEnd
from node.system.addresses import join_endpoint
from node.system.errors import UserError
from node.system.streams import KERNEL, BoundAddress, Incoming, Listener, P, Pair, Streams
from node.system.system import Entropy
from protocol.crypto.node_key import NodeKey
from protocol.relay import streams as ends
from protocol.relay.admission import Admit, CarrierKind, Credentials, Members, Pass, Relay, Welcome
from protocol.relay.frames import Absence, Frame
from protocol.relay.stream import BOUNDS, Bounds, Ended, FarFinished, Opened, Received, Room, StreamId
from protocol.relay.streams import Action, Limited, NoStream, Ready
from protocol.relay.ways import Away, CarrierId
from protocol.wire.endpoints import key_of
from protocol.wire.ids import Key

log = Log("relay")
_PROCESS_BYTES = 8


@dataclass(frozen=True)
class Presence:
    """Whether a member is there. `relay`: the endpoint of the relay that leads to it; None: it is not there.

    `since`: since when it is missed, by the event loop's clock, and `why`; None: it was never seen.
    """

    relay: str | None
    since: float | None = None
    why: str = ""


_WHY = {
    None: "no relay can be reached from here",
    Absence.SILENT: "its connection to the relay broke",
    Absence.CLOSED: "it closed its connection to the relay",
}


def _quiet(_: str) -> None:
    """Nobody is told."""


class RelayedStreams:
    """An implementation of `node.system.streams.Streams` for one node."""

    def __init__(
        self,
        key: NodeKey,
        members: Members,
        relays: tuple[Relay, ...],
        base: Streams = KERNEL,
        entropy: Entropy = os.urandom,
        passes: tuple[Pass, ...] = (),
        removed: frozenset[Key] = frozenset(),
        warn: Callable[[str], None] = _quiet,
        bounds: Bounds = BOUNDS,
    ) -> None:
        """Nothing is opened yet. Create and use it in one event loop.

        Args:
            key: this node's own.
            members: the roster's keys, as the inviter signed them.
            relays: those of the roster, in its order.
            base: how other endpoints are reached, and the relays where there is no proxy.
            entropy: returns random bytes.
            passes: of members who came later, in the order of their chain.
            removed: keys of members to whom no stream leads.
            warn: shows the owner a line: why no relay can be reached, or that one carries no more.
            bounds: sizes and numbers of streams.
        """
        self._key = key
        self._members = members
        self._relays = relays
        self._base = base
        self._entropy = entropy
        self._passes = passes
        self._removed = removed
        self._warn = warn
        self._bounds = bounds
        self._process = int.from_bytes(entropy(_PROCESS_BYTES), "big")
        self._machine: ends.Streams | None = None
        self._client: RelayClient | None = None
        self._carriers: dict[CarrierId, CarrierTask] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._up: set[CarrierId] = set()
        self._is_up = asyncio.Event()
        self._refused: asyncio.Future[None] | None = None
        """Ends `start` with an error that another try does not mend."""
        self._said: dict[int, set[str]] = {}
        """Why each relay cannot be reached, as the owner has read since it was."""
        self._locals: dict[StreamId, LocalEnd] = {}
        self._why: dict[StreamId, str] = {}
        """Why streams ended that are still being opened."""
        self._accepting: set[asyncio.Task[None]] = set()
        self._incoming: deque[Incoming] = deque()
        self._listeners: list[_Listener] = []
        self._timer: asyncio.TimerHandle | None = None

    # -- life cycle ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connects, and returns once a relay carries. It tries for as long as it takes.

        Raises UserError if a relay holds another key than the roster says, or refuses this swarm.
        """
        loop = asyncio.get_running_loop()
        base = int.from_bytes(self._entropy(_PROCESS_BYTES), "big") >> (8 * _PROCESS_BYTES - ends.BASE_BITS)
        self._machine = ends.Streams(
            self._key.public, self._keys, len(self._relays), base, loop.time(), self._bounds
        )
        self._client = RelayClient(self._base)
        self._refused = loop.create_future()
        for number, relay in enumerate(self._relays):
            for kind in CarrierKind:
                admit = partial(self._admit, kind, relay)
                carrier = CarrierId(number, kind)
                task = CarrierTask(self, carrier, relay, self._key, admit, self._client, self._entropy)
                self._carriers[carrier] = task
                self._tasks.append(asyncio.create_task(task.run(), name=f"carrier to {relay.endpoint}"))
        up = asyncio.create_task(self._is_up.wait())
        try:
            await asyncio.wait((up, self._refused), return_when=asyncio.FIRST_COMPLETED)
            if not self._is_up.is_set():
                self._refused.result()
        except BaseException:
            await self.close()
            raise
        finally:
            up.cancel()
            self._refused.cancel()

    @property
    def _keys(self) -> frozenset[Key]:
        """Those with whom there may be streams."""
        return frozenset((*self._members.keys, *(each.key for each in self._passes))) - self._removed

    def _admit(self, kind: CarrierKind, relay: Relay) -> Admit:
        """Returns what is shown to a relay that is connected now."""
        return Admit(kind, self._process, Credentials(self._members, relay.licence, self._passes))

    def change_members(self, passes: tuple[Pass, ...], removed: frozenset[Key]) -> None:
        """Takes other `passes` and `removed` than at the start: streams of whoever is removed end at once.

        Relays see further passes when a carrier opens next; until then a later member shows its own.
        """
        self._passes, self._removed = passes, removed
        self._act(self._running.change_members(self._keys, asyncio.get_running_loop().time()))

    async def close(self) -> None:
        """Ends all streams, closes the carriers and accepts no more."""
        tasks = (*self._tasks, *self._accepting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for stream in list(self._locals):
            self.abort(stream)
        while self._incoming:
            self._incoming.popleft().close()
        if self._client is not None:
            await self._client.close()

    @property
    def presence(self) -> dict[Key, Presence]:
        """The other members, and whether each is there."""
        if self._machine is None:
            return {}
        return {member: self._presence_of(self._machine.seen(member)) for member in self._machine.members}

    def _presence_of(self, seen: CarrierId | Away | None) -> Presence:
        match seen:
            case CarrierId(relay):
                return Presence(self._relays[relay].endpoint)
            case Away(since, why):
                return Presence(None, since, _WHY[why])
        return Presence(None)

    def why_away(self, member: Key) -> str | None:
        """Why no relay leads to a member; None if one does, as far as is known."""
        away = self._running.away(member)
        return None if away is None else _WHY[away.why]

    # -- Streams -------------------------------------------------------------------------------------

    async def open(
        self,
        host: str,
        port: int,
        protocol: Callable[[], P],
        tls: ssl.SSLContext | None,
        *,
        bulk: bool = False,
    ) -> tuple[asyncio.BaseTransport, P]:
        """See Streams.open. A member that is away is a ConnectionError with a sentence, never a refusal."""
        peer = key_of(join_endpoint(host, port))
        if peer is None:
            return await self._base.open(host, port, protocol, tls, bulk=bulk)
        kind, now = CarrierKind.BULK if bulk else CarrierKind.CONTROL, asyncio.get_running_loop().time()
        try:
            name, actions = self._running.open(peer, kind, now)
        except NoStream as error:
            raise ConnectionError(str(error)) from error
        local = self._locals[name] = LocalEnd(self, name)
        self._why[name] = ""
        self._act(actions)
        try:
            pair = await self._pair_of(local, name)
            return await pair.connect(protocol, tls, host)
        except OSError as error:
            why = self._why[name]
            raise ConnectionError(why) if why else error from error
        finally:
            del self._why[name]

    def listen(self, bound: BoundAddress) -> Listener:
        """See Streams.listen. Streams of members are accepted beside the connections to `bound`."""
        listener = _Listener(self._base.listen(bound), self._incoming, self._listeners.remove)
        self._listeners.append(listener)
        return listener

    async def pair(self, near: Callable[[], asyncio.BaseProtocol], key: Key | None) -> Pair:
        """See Streams.pair."""
        return await self._base.pair(near, key)

    # -- what local ends call ------------------------------------------------------------------------

    def room(self, stream: StreamId) -> int:
        """See Far.room."""
        return self._running.room(stream)

    def write(self, stream: StreamId, data: memoryview) -> None:
        """See Far.write."""
        self._act(self._running.write(stream, data))

    def consume(self, stream: StreamId, count: int) -> None:
        """See Far.consume."""
        self._act(self._running.consume(stream, count))

    def finish(self, stream: StreamId) -> None:
        """See Far.finish."""
        self._act(self._running.finish(stream))

    def abort(self, stream: StreamId) -> None:
        """See Far.abort."""
        self._act(self._running.abort(stream))

    # -- what carriers call --------------------------------------------------------------------------

    def connected(self, carrier: CarrierId, welcome: Welcome) -> None:
        """See Hub.connected."""
        self._up.add(carrier)
        if all(CarrierId(carrier.relay, kind) in self._up for kind in CarrierKind):
            endpoint = self._relays[carrier.relay].endpoint
            log.info("relay-connected", relay=endpoint)
            if self._said.pop(carrier.relay, None) and self._is_up.is_set():
                self._warn(f"the relay {endpoint} is reached again")
            self._is_up.set()
        self._act(self._running.connect(carrier, asyncio.get_running_loop().time()))

    def disconnected(self, carrier: CarrierId) -> None:
        """See Hub.disconnected."""
        self._up.discard(carrier)
        self._act(self._running.disconnect(carrier, asyncio.get_running_loop().time()))

    def failed(self, carrier: CarrierId, error: UserError) -> None:
        """See Hub.failed. The owner reads each reason once."""
        line = str(error)
        if not isinstance(error, NoWay) and self._refused is not None and not self._refused.done():
            self._refused.set_exception(error)
        elif line not in (said := self._said.setdefault(carrier.relay, set())):
            said.add(line)
            self._warn(line)

    def next_frame(self, carrier: CarrierId) -> Frame | None:
        """See Hub.next_frame."""
        frame = self._running.next_frame(carrier, asyncio.get_running_loop().time())
        self._set_timer()
        return frame

    def receive(self, carrier: CarrierId, frame: Frame) -> None:
        """See Hub.receive."""
        self._act(self._running.receive(carrier, frame, asyncio.get_running_loop().time()))

    # -- actions -------------------------------------------------------------------------------------

    @property
    def _running(self) -> ends.Streams:
        if self._machine is None:
            raise ConnectionError("no relay was asked yet")
        return self._machine

    def _act(self, actions: list[Action]) -> None:
        """Carries out what the machine hands out."""
        for action in actions:
            match action:
                case Ready(carrier):
                    self._carriers[carrier].ready()
                case Received(stream, data):
                    self._locals[stream].take(data)
                case Room(stream):
                    self._locals[stream].make_room()
                case Opened(stream):
                    self._accept(stream)
                case FarFinished(stream):
                    self._locals[stream].end_reading()
                case Ended(stream, why):
                    self._end(stream, why)
                case Limited(relay, why):
                    self._warn(f"the relay {self._relays[relay].endpoint} carries no more: {why}")
        self._set_timer()

    def _end(self, stream: StreamId, why: str | None) -> None:
        if stream in self._why and why is not None:
            self._why[stream] = why
        self._locals.pop(stream).end(in_peace=why is None)

    def _accept(self, stream: StreamId) -> None:
        """Makes the local end of a stream that a member has opened; it waits for a listener to take it."""
        local = self._locals[stream] = LocalEnd(self, stream)
        task = asyncio.create_task(self._make_pair(local, stream), name="a relayed stream")
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    async def _make_pair(self, local: LocalEnd, stream: StreamId) -> None:
        try:
            incoming = await self._pair_of(local, stream)
        except OSError as error:  # no descriptor is left
            log.warning("stream-refused", why=str(error))
            return
        self._incoming.append(incoming)
        for listener in self._listeners:
            listener.wake()

    async def _pair_of(self, local: LocalEnd, stream: StreamId) -> Pair:
        """Returns the other end of a local end, whose stream ends if there is none. Raises OSError."""
        try:
            return await self._base.pair(lambda: local, stream[0])
        except BaseException:
            self.abort(stream)
            raise

    # -- time ----------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        due = math.inf if self._machine is None or self._machine.deadline is None else self._machine.deadline
        if self._timer is not None and self._timer.when() <= due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due, self._tick) if due < math.inf else None

    def _tick(self) -> None:
        self._timer = None
        self._act(self._running.tick(asyncio.get_running_loop().time()))


class _Listener:
    """Connections to an address, and streams of members beside them."""

    def __init__(
        self, address: Listener, members: deque[Incoming], closed: Callable[[_Listener], None]
    ) -> None:
        self._address = address
        self._members = members
        self._closed = closed
        self._ready: Callable[[], None] | None = None

    def watch(self, ready: Callable[[], None]) -> None:
        """See Listener.watch."""
        self._ready = ready
        self._address.watch(ready)
        self.wake()

    def unwatch(self) -> None:
        """See Listener.unwatch."""
        self._ready = None
        self._address.unwatch()

    def wake(self) -> None:
        """A member's stream waits."""
        if self._ready is not None and self._members:
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        if self._ready is not None and self._members:
            self._ready()
            self.wake()

    def accept(self) -> Incoming:
        """See Listener.accept."""
        return self._members.popleft() if self._members else self._address.accept()

    def close(self) -> None:
        """See Listener.close."""
        self._ready = None
        self._address.close()
        self._closed(self)
