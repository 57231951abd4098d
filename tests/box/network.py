"""Streams in memory between the nodes of a box, with delays, cuts and slow readers drawn from a seed.

A write travels as one block, after a delay of its own but never before an earlier block of its stream. What
was in flight when a link was cut arrives when it heals, as TCP sends it again. What a killed node had written
still arrives, and then a reset, as from its kernel; one whose machine is lost says nothing more.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import ssl
from asyncio import sslproto
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from typing import Any, TypeVar

from node.net.intake import SMALL_BYTES
from node.system.streams import BoundAddress, Incoming
from tests.box.loop import Life, VirtualLoop, this_life

P = TypeVar("P", bound=asyncio.BaseProtocol)
HOST = "127.0.0.1"
FIRST_PORT = 21001
INSIDE = -1
"""The far end of a stream that does not leave its node, so that no cut, line or delay concerns it."""
_HIGH_BYTES, _LOW_BYTES = 128 * 1024, 32 * 1024
_SEGMENT_BYTES = 8 * 1024


class Network:
    """All streams of a box. A node's number follows from its port."""

    def __init__(self, loop: VirtualLoop, seed: int, slowest_s: float = 0.02) -> None:
        self.loop = loop
        self._seed = seed
        self._between: Counter[tuple[int, int]] = Counter()
        self.slowest_s = slowest_s
        """The longest usual delay of a block."""
        self.cuts: set[frozenset[int]] = set()
        self.slow: set[int] = set()
        """Nodes to which each block takes a second."""
        self.up: dict[int, Line] = {}
        self.down: dict[int, Line] = {}
        """The lines of nodes that have a rate; all others are as fast as can be."""
        self.listeners: dict[int, MemoryListener] = {}
        self.streams: set[MemoryTransport] = set()
        self.bulk: dict[int, Line] = {}
        """The lines of nodes that are slow with bulk alone."""
        self._opened = 0

    def way(self, here: int, there: int) -> random.Random:
        """Returns the chances of one more stream's way: streams do not change each other's."""
        self._between[here, there] += 1
        return random.Random(f"{self._seed} {here} {there} {self._between[here, there]}")

    def delay_s(self, way: random.Random, there: int) -> float:
        """Returns the delay of a block to a node."""
        if there == INSIDE:
            return 0.0
        return 1.0 if there in self.slow else way.uniform(0.0001, self.slowest_s)

    def narrow(self, number: int, up: float, down: float) -> None:
        """Gives a node a line of so many bytes per second each way."""
        self.up[number], self.down[number] = Line(self.loop, up), Line(self.loop, down)

    def trickle(self, number: int, rate: float) -> None:
        """Lets a node send bulk at so many bytes per second, and all else at once."""
        self.bulk[number] = Line(self.loop, rate)

    def is_cut(self, one: int, other: int) -> bool:
        return frozenset((one, other)) in self.cuts

    def cut(self, one: int, other: int) -> None:
        """Lets nothing through between two nodes until `heal`."""
        self.cuts.add(frozenset((one, other)))

    def heal(self) -> None:
        """Mends all links; readers are fast again."""
        self.slow.clear()
        self.mend(self.cuts)

    def mend(self, ways: Iterable[frozenset[int]]) -> None:
        """Mends these links."""
        self.cuts = self.cuts.difference(ways)
        for stream in sorted(self.streams, key=lambda stream: stream.number):
            stream.out.wake()
            stream.far.out.wake()  # it may be closed, and what it has written still on its way

    def bind(self, number: int) -> MemoryAddress:
        return MemoryAddress(self, number)

    def count(self, stream: MemoryTransport) -> int:
        """Notes an open end; returns its number."""
        self.streams.add(stream)
        self._opened += 1
        return self._opened

    def reset(self, life: Life, *, silently: bool) -> None:
        """Ends a killed life's streams and its listener at once; `silently` if its machine is gone, too."""
        for listener in [known for known in self.listeners.values() if known.life is life]:
            listener.close()
        for stream in sorted(self.streams, key=lambda stream: stream.number):
            if stream.life is life:
                stream.vanish(silently=silently)


class Line:
    """One direction of a node's line: its streams take turns, a segment each, as fast as its rate allows."""

    def __init__(self, loop: VirtualLoop, rate: float) -> None:
        self._loop, self.rate = loop, rate
        self._waiting: dict[_Pipe, deque[tuple[Any, Callable[[Any], None]]]] = {}
        self._is_busy = False

    def carry(self, pipe: _Pipe, block: Any, then: Callable[[Any], None]) -> None:
        """Calls `then` with each segment of a block once it has passed."""
        firsts = range(0, len(block), _SEGMENT_BYTES) if isinstance(block, bytes) else ()
        segments = [block[first : first + _SEGMENT_BYTES] for first in firsts] or [block]
        self._waiting.setdefault(pipe, deque()).extend((segment, then) for segment in segments)
        self._go_on()

    def drop(self, pipe: _Pipe) -> None:
        """Loses what a stream still has to send."""
        self._waiting.pop(pipe, None)

    def _go_on(self) -> None:
        if self._is_busy or not self._waiting:
            return
        pipe = next(iter(self._waiting))
        waiting = self._waiting.pop(pipe)
        segment, then = waiting.popleft()
        if waiting:
            self._waiting[pipe] = waiting  # behind all others
        self._is_busy = True
        takes_s = len(segment) / self.rate if isinstance(segment, bytes) else 0.0
        self._loop.call_later(takes_s, self._passed, segment, then, context=Context())

    def _passed(self, segment: Any, then: Callable[[Any], None]) -> None:
        self._is_busy = False
        then(segment)
        self._go_on()


class MemoryAddress:
    """A node's address, bound."""

    def __init__(self, network: Network, number: int) -> None:
        self.network, self.number = network, number

    def getsockname(self) -> tuple[str, int]:
        return HOST, FIRST_PORT + self.number

    def close(self) -> None:
        """There is nothing to give back."""


class MemoryStreams:
    """The streams of one node's life."""

    def __init__(self, network: Network, number: int) -> None:
        self._network = network
        self._number = number

    async def open(
        self,
        host: str,
        port: int,
        protocol: Callable[[], P],
        tls: ssl.SSLContext | None,
        *,
        bulk: bool = False,
    ) -> tuple[asyncio.BaseTransport, P]:
        network, there, life = self._network, port - FIRST_PORT, this_life()
        await asyncio.sleep(network.delay_s(network.way(self._number, there), there))
        while network.is_cut(self._number, there):  # noqa: ASYNC110 - the first packet is sent again
            await asyncio.sleep(0.5)
        listener = network.listeners.get(there)
        if listener is None or life.is_dead:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        here = MemoryTransport(network, life, copy_context(), self._number, there)
        far = MemoryTransport(network, listener.life, listener.context, there, self._number)
        here.join(far)
        listener.queue(MemoryIncoming(far))
        made = protocol()
        assert isinstance(made, asyncio.Protocol)
        return await _connected(here, made, tls, server_side=False, within_s=None), made

    def listen(self, bound: BoundAddress) -> MemoryListener:
        assert isinstance(bound, MemoryAddress)
        return MemoryListener(self._network, bound.number, this_life())

    async def pair(self, near: Callable[[], asyncio.BaseProtocol], key: bytes | None) -> MemoryPair:
        life, context = this_life(), copy_context()
        mine = MemoryTransport(self._network, life, context, INSIDE, INSIDE)
        theirs = MemoryTransport(self._network, life, context, INSIDE, INSIDE)
        mine.join(theirs)
        made = near()
        mine.serve(made)
        made.connection_made(mine)
        return MemoryPair(theirs, key)


async def _connected(
    wire: MemoryTransport,
    protocol: asyncio.Protocol,
    tls: ssl.SSLContext | None,
    *,
    server_side: bool,
    within_s: float | None,
) -> asyncio.BaseTransport:
    """Hands a stream to its protocol, after the TLS handshake if there is one (as asyncio's loops do)."""
    if tls is None:
        wire.serve(protocol)
        protocol.connection_made(wire)
        return wire
    waiter = asyncio.get_running_loop().create_future()
    layer = sslproto.SSLProtocol(
        wire.network.loop, protocol, tls, waiter, server_side, None, ssl_handshake_timeout=within_s
    )
    wire.serve(layer)
    layer.connection_made(wire)
    try:
        await waiter
    except BaseException:
        wire.abort()
        raise
    return layer._app_transport


class MemoryListener:
    """Streams that wait to be accepted."""

    def __init__(self, network: Network, number: int, life: Life) -> None:
        self.life = life
        self.context = copy_context()
        self._network, self._number = network, number
        self._waiting: deque[MemoryIncoming] = deque()
        self._ready: Callable[[], None] | None = None
        network.listeners[number] = self

    def queue(self, incoming: MemoryIncoming) -> None:
        self._waiting.append(incoming)
        self._tell()

    def _tell(self) -> None:
        if self._waiting and self._ready is not None:
            self._network.loop.call_soon(self._is_ready, context=self.context.copy())

    def _is_ready(self) -> None:
        if self._waiting and self._ready is not None:
            self._ready()
            self._tell()

    def watch(self, ready: Callable[[], None]) -> None:
        self._ready = ready
        self._tell()

    def unwatch(self) -> None:
        self._ready = None

    def accept(self) -> Incoming:
        if not self._waiting:
            raise BlockingIOError
        return self._waiting.popleft()

    def close(self) -> None:
        self._ready = None
        if self._network.listeners.get(self._number) is self:
            del self._network.listeners[self._number]
        while self._waiting:
            self._waiting.popleft().close()


class MemoryIncoming:
    """An accepted stream."""

    address = HOST

    def __init__(self, wire: MemoryTransport, key: bytes | None = None) -> None:
        self._wire = wire
        self.key = key

    def watch(self, ready: Callable[[], None]) -> None:
        self._wire.watch(ready)

    def unwatch(self) -> None:
        self._wire.watch(None)

    def first_byte(self) -> bytes | None:
        return self._wire.first_byte()

    async def serve(
        self, protocol: asyncio.Protocol, tls: ssl.SSLContext | None, handshake_s: float | None
    ) -> None:
        if self._wire.is_closing():
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        await _connected(self._wire, protocol, tls, server_side=True, within_s=handshake_s)

    def shut(self) -> None:
        self._wire.abort()

    def close(self) -> None:
        self._wire.abort()


class MemoryPair(MemoryIncoming):
    """One end of a stream within a node."""

    async def connect(
        self, protocol: Callable[[], P], tls: ssl.SSLContext | None, name: str
    ) -> tuple[asyncio.BaseTransport, P]:
        made = protocol()
        assert isinstance(made, asyncio.Protocol)
        return await _connected(self._wire, made, tls, server_side=False, within_s=None), made


_END, _RESET = object(), object()


class _Pipe:
    """One direction of a stream: blocks in flight, in order."""

    def __init__(self, sender: MemoryTransport, receiver: MemoryTransport) -> None:
        self._sender, self._receiver = sender, receiver
        self._way = sender.network.way(sender.here, receiver.here)
        self._blocks: deque[tuple[float, Any]] = deque()
        self._last_s = 0.0
        self._is_set = False
        self._line: Line | None = None
        """The line of its sender that it goes through, from its first bulk on if that has one of its own."""
        self.bytes = 0

    def put(self, block: Any) -> None:
        self.bytes += len(block) if isinstance(block, bytes) else 0
        network, here = self._sender.network, self._sender.here
        if self._line is None:
            is_bulk = isinstance(block, bytes) and len(block) > SMALL_BYTES
            self._line = (network.bulk.get(here) if is_bulk else None) or network.up.get(here)
        self._is_up(block) if self._line is None else self._line.carry(self, block, self._is_up)

    def _is_up(self, block: Any) -> None:
        down = self._sender.network.down.get(self._receiver.here)
        self._is_down(block) if down is None else down.carry(self, block, self._is_down)

    def _is_down(self, block: Any) -> None:
        network = self._sender.network
        self._last_s = max(
            self._last_s, network.loop.time() + network.delay_s(self._way, self._receiver.here)
        )
        self._blocks.append((self._last_s, block))
        self.wake()

    def drop(self) -> None:
        """Loses what is in flight."""
        network = self._sender.network
        for line in (*network.up.values(), *network.down.values(), *network.bulk.values()):
            line.drop(self)
        self._blocks.clear()
        self.bytes = 0

    def wake(self) -> None:
        """Sets the timer of the first block, if the receiver takes one."""
        if self._blocks and not self._is_set and not self._is_held:
            self._is_set = True
            self._sender.network.loop.call_at(
                self._blocks[0][0], self._deliver, context=self._receiver.context.copy()
            )

    @property
    def _is_held(self) -> bool:
        receiver = self._receiver
        first = self._blocks[0][1] if self._blocks else None
        is_stopped = receiver.is_paused and first is not _RESET
        return is_stopped or receiver.network.is_cut(receiver.here, receiver.there)

    def _deliver(self) -> None:
        self._is_set = False
        if not self._blocks or self._is_held:
            return
        _, block = self._blocks.popleft()
        if isinstance(block, bytes):
            self.bytes -= len(block)
        self._receiver.take(block)
        self._sender.drained()
        self.wake()


def _hand(protocol: asyncio.BaseProtocol, data: bytes) -> None:
    """Hands received bytes to a protocol of either kind."""
    if not isinstance(protocol, asyncio.BufferedProtocol):
        assert isinstance(protocol, asyncio.Protocol)
        protocol.data_received(data)
        return
    while data:
        buffer = memoryview(protocol.get_buffer(len(data)))
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        protocol.buffer_updated(count)
        data = data[count:]


class MemoryTransport(asyncio.Transport):
    """One end of a stream."""

    _start_tls_compatible = True

    def __init__(self, network: Network, life: Life, context: Context, here: int, there: int) -> None:
        super().__init__({"peername": (HOST, FIRST_PORT + there), "sockname": (HOST, FIRST_PORT + here)})
        self.network, self.life, self.context = network, life, context
        self.here, self.there = here, there
        self.is_paused = False
        self._protocol: Any = None  # of either kind: see _hand
        self._early: list[Any] = []
        self._ready: Callable[[], None] | None = None
        self._is_closing = False
        self._is_lost = False
        self._has_ended = False
        self._high, self._low = _HIGH_BYTES, _LOW_BYTES
        self._holds_writer = False
        self.number = 0

    def join(self, far: MemoryTransport) -> None:
        """Connects both ends."""
        self.far, far.far = far, self
        self.out, far.out = _Pipe(self, far), _Pipe(far, self)
        for end in (self, far):
            end.number = self.network.count(end)

    # -- before there is a protocol ----------------------------------------------------------------

    def watch(self, ready: Callable[[], None] | None) -> None:
        self._ready = ready
        if ready is not None and self._early:
            self.network.loop.call_soon(self._tell, context=self.context.copy())

    def _tell(self) -> None:
        if self._ready is not None:
            self._ready()

    def first_byte(self) -> bytes | None:
        if not self._early:
            return b""
        return self._early[0][:1] if isinstance(self._early[0], bytes) else None

    def serve(self, protocol: asyncio.BaseProtocol) -> None:
        """Gives the stream its protocol; what has come by now follows in the loop's next turn."""
        self._protocol = protocol
        self.network.loop.call_soon(self._take_early, context=self.context.copy())

    def _take_early(self) -> None:
        early, self._early = self._early, []
        for block in early:
            self.take(block)

    # -- receiving ---------------------------------------------------------------------------------

    def take(self, block: Any) -> None:
        """Receives a block, the end, or a reset."""
        if self._is_lost:
            return
        if block is _RESET:
            self._early = [_RESET]
            self._lose(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
            self._tell()
        elif self._protocol is None or self._early:
            self._early.append(block)
            self._tell()
        elif block is _END:
            self._has_ended = True
            if not self._protocol.eof_received():
                self.close()
        elif not self._is_closing:
            _hand(self._protocol, block)

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False
        self.network.loop.call_soon(self.far.out.wake, context=self.context.copy())

    def is_reading(self) -> bool:
        return not self.is_paused and not self._is_closing

    # -- sending -----------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or self.life.is_dead or not len(data):
            return
        self.out.put(bytes(data))
        if self.out.bytes > self._high and not self._holds_writer and self._protocol is not None:
            self._holds_writer = True
            self._protocol.pause_writing()

    def drained(self) -> None:
        """The far end has taken a block."""
        if self._holds_writer and self.out.bytes <= self._low:
            self._holds_writer = False
            self.network.loop.call_soon(self._resume_writing, context=self.context.copy())

    def _resume_writing(self) -> None:
        if self._protocol is not None and not self._is_lost:
            self._protocol.resume_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self.out.bytes

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._is_closing and not self.life.is_dead:
            self.out.put(_END)

    # -- the end -----------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if not self.life.is_dead:
                self.out.put(_END)
            self._lose(None)

    def abort(self) -> None:
        if not self._is_lost:  # else its end is on its way
            self.out.drop()
            self.vanish(silently=False)

    def vanish(self, *, silently: bool) -> None:
        """Ends as its process is killed: a reset follows what it has written, unless its machine is lost."""
        if not self._is_lost:
            if silently:
                self.out.drop()
            else:
                self.out.put(_RESET)
            self._lose(None)

    def _force_close(self, _: BaseException | None) -> None:
        """What asyncio's TLS layer calls after a fatal error: all that came was read, so the end follows."""
        if not self._is_lost:
            self.out.drop()
            self.close()

    def _lose(self, error: Exception | None) -> None:
        self._is_closing = True
        if not self._is_lost:
            self._is_lost = True
            self.network.streams.discard(self)
            self.network.loop.call_soon(self._tell_lost, error, context=self.context.copy())

    def _tell_lost(self, error: Exception | None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol
