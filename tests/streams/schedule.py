"""Seeded schedules of relayed streams: frames are lost, doubled, reordered, forged; relays restart or fail.

Each stream must bring the same bytes, or be closed at both ends. Where nothing is forged and no outage lasts
long, it must bring the same bytes.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from protocol.relay.admission import CarrierKind
from protocol.relay.frames import Absence, Frame, FrameKind
from protocol.relay.stream import Bounds, Ended, FarFinished, Opened, Received, Room, StreamId
from protocol.relay.streams import Action, NoStream, Ready, Streams
from protocol.relay.ways import CarrierId
from protocol.wire.ids import Key

BOUNDS = Bounds(piece=256, window=4096, credit=512, of_a_pair=16, kept=16 * 1024)
LONGEST_S = 3600.0
_FORGED = (FrameKind.RESET, FrameKind.CREDIT, FrameKind.AT)


@dataclass(frozen=True)
class Weather:
    """What goes wrong. Probabilities are for each frame; `delay_s`: the longest; `breaks`: of carriers."""

    lost: float
    doubled: float
    forged: float
    delay_s: float
    breaks: int
    outage_s: float

    @property
    def is_kind(self) -> bool:
        """Whether every stream must bring all its bytes."""
        return not self.forged and self.outage_s < 20.0


def weather(chance: random.Random) -> Weather:
    """Draws one."""
    return Weather(
        lost=chance.choice((0.0, 0.02, 0.2)),
        doubled=chance.choice((0.0, 0.02, 0.2)),
        forged=chance.choice((0.0, 0.0, 0.005, 0.05)),
        delay_s=chance.choice((0.001, 0.05, 0.5, 3.0)),
        breaks=chance.choice((0, 0, 1, 4)),
        outage_s=chance.choice((0.5, 5.0, 15.0, 60.0)),
    )


@dataclass
class Half:
    """One end of a stream: what it writes, what came, and how it ended."""

    to_write: bytes
    written: int = 0
    got: bytearray = field(default_factory=bytearray)
    has_all: bool = False
    ended: bool = False
    why: str | None = None


class Node:
    """A node, its machine, and the readers and writers of its streams."""

    def __init__(self, world: World, key: Key) -> None:
        self.world, self.key = world, key
        base = world.chance.getrandbits(40)
        self.machine = Streams(key, world.keys, world.relays, base, world.now, BOUNDS)
        self.halves: dict[StreamId, Half] = {}
        self.pulling: set[CarrierId] = set()
        self.wakes_at: float | None = None

    def open(self, peer: Key) -> None:
        kind = self.world.chance.choice(tuple(CarrierKind))
        try:
            stream, actions = self.machine.open(peer, kind, self.world.now)
        except NoStream:
            return
        self.halves[stream] = Half(self.world.payload())
        self.act(actions)
        self.write(stream)

    def act(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Ready(carrier):
                    self.pull_later(carrier)
                case Opened(stream):
                    self.halves[stream] = Half(self.world.payload())
                    self.write(stream)
                case Received(stream, data):
                    self.halves[stream].got += data
                    self.world.later(
                        self.world.chance.choice((0.0, 0.01, 2.0)), self.consume, stream, len(data)
                    )
                case FarFinished(stream):
                    self.halves[stream].has_all = True
                case Room(stream):
                    self.write(stream)
                case Ended(stream, why):
                    self.halves[stream].ended, self.halves[stream].why = True, why
        self.watch()

    def write(self, stream: StreamId) -> None:
        half = self.halves[stream]
        while not half.ended and (room := self.machine.room(stream)) > 0:
            if half.written == len(half.to_write):
                self.act(self.machine.finish(stream))
                return
            count = min(room, 1 + self.world.chance.randrange(700))
            data = memoryview(half.to_write)[half.written : half.written + count]
            half.written += len(data)
            self.act(self.machine.write(stream, data))

    def consume(self, stream: StreamId, count: int) -> None:
        self.act(self.machine.consume(stream, count))

    def pull_later(self, carrier: CarrierId) -> None:
        if carrier not in self.pulling:
            self.pulling.add(carrier)
            self.world.later(0.0005, self.pull, carrier)

    def pull(self, carrier: CarrierId) -> None:
        self.pulling.discard(carrier)
        frame = self.machine.next_frame(carrier, self.world.now)
        if frame is not None:
            self.world.send(self, carrier, frame)
            self.pull_later(carrier)
        self.watch()

    def watch(self) -> None:
        due = self.machine.deadline
        if due is not None and (self.wakes_at is None or due < self.wakes_at):
            self.wakes_at = due
            self.world.at(due, self.tick)

    def tick(self) -> None:
        self.wakes_at = None
        self.act(self.machine.tick(self.world.now))


class World:
    """Nodes, relays between them, and a clock."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.weather = weather(self.chance)
        self.now = 0.0
        self.relays = self.chance.choice((1, 1, 2, 3))
        self.keys = tuple(bytes([number]) * 32 for number in range(self.chance.choice((2, 2, 3))))
        self._events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._numbers = itertools.count()
        self.mute: dict[tuple[int, Key], float] = {}
        """From when a relay passes on nothing of a member. The last relay carries for all."""
        for relay in range(self.relays - 1):
            if self.chance.random() < 0.2:
                since, whose = self.chance.random() * 10, self.chance.choice((self.keys, self.keys[:1]))
                self.mute |= dict.fromkeys(((relay, key) for key in whose), since)
        self._lives: dict[tuple[Key, CarrierId], int] = {}
        """The carriers that are up, and how often each has been."""
        self.nodes = {key: Node(self, key) for key in self.keys}

    def payload(self) -> bytes:
        return self.chance.randbytes(self.chance.choice((0, 1, 700, 9000, 30000)))

    def later(self, wait_s: float, do: Callable[..., None], *arguments: object) -> None:
        self.at(self.now + wait_s, do, *arguments)

    def at(self, when: float, do: Callable[..., None], *arguments: object) -> None:
        heapq.heappush(self._events, (max(when, self.now), next(self._numbers), do, arguments))

    # -- relays --------------------------------------------------------------------------------------

    def up(self, key: Key, carrier: CarrierId) -> None:
        self._lives[key, carrier] = next(self._numbers)
        self.nodes[key].act(self.nodes[key].machine.connect(carrier, self.now))
        for other in self.keys:
            if other != key and (other, carrier) in self._lives:
                self.bring(other, carrier, Frame(key, FrameKind.HERE, 7))

    def down(self, key: Key, carrier: CarrierId, how: Absence) -> None:
        del self._lives[key, carrier]
        self.nodes[key].act(self.nodes[key].machine.disconnect(carrier, self.now))
        for other in self.keys:
            if other != key and (other, carrier) in self._lives:
                self.bring(other, carrier, Frame(key, FrameKind.AWAY, 0, how))

    def bring(self, key: Key, carrier: CarrierId, frame: Frame) -> None:
        """The relay's own word, which arrives while the carrier lives."""
        self.later(0.001, self.deliver, key, carrier, frame, self._lives[key, carrier])

    def send(self, node: Node, carrier: CarrierId, frame: Frame) -> None:
        to, sky = frame.key, self.weather
        if self.now >= self.mute.get((carrier.relay, node.key), math.inf):
            return
        if (to, carrier) not in self._lives:
            self.bring(node.key, carrier, Frame(to, FrameKind.AWAY, 0, Absence.SILENT))
            return
        copies = (self.chance.random() >= sky.lost) + (self.chance.random() < sky.doubled)
        frames = [Frame(node.key, frame.kind, frame.stream, frame.offset, frame.data)] * copies
        if self.chance.random() < sky.forged:
            offset = max(0, frame.offset + self.chance.choice((-300, -1, 0, 1, 300, 9999)))
            frames.append(Frame(node.key, self.chance.choice(_FORGED), frame.stream, offset))
        for one in frames:
            delay_s = 0.001 + self.chance.random() * self.chance.choice((0.0, sky.delay_s))
            self.later(delay_s, self.deliver, to, carrier, one, self._lives[to, carrier])

    def deliver(self, key: Key, carrier: CarrierId, frame: Frame, life: int) -> None:
        if self._lives.get((key, carrier)) == life:
            node = self.nodes[key]
            node.act(node.machine.receive(carrier, frame, self.now))

    def break_one(self) -> None:
        """A relay restarts, or one node's carrier breaks; both come back."""
        relay, outage_s = self.chance.randrange(self.relays), self.chance.random() * self.weather.outage_s
        whose = self.keys if self.chance.random() < 0.5 else (self.chance.choice(self.keys),)
        for key in whose:
            for kind in CarrierKind:
                if (key, carrier := CarrierId(relay, kind)) in self._lives:
                    self.down(key, carrier, Absence.SILENT)
                    self.later(outage_s + self.chance.random(), self.up, key, carrier)

    # -- the run -------------------------------------------------------------------------------------

    def run(self) -> None:
        for key in self.keys:
            for relay in range(self.relays):
                for kind in CarrierKind:
                    self.at(self.chance.random(), self.up, key, CarrierId(relay, kind))
        for _ in range(self.chance.choice((1, 2, 8))):
            here, there = self.chance.sample(self.keys, 2)
            self.at(self.chance.random() * 3, self.nodes[here].open, there)
        for _ in range(self.weather.breaks):
            self.at(1 + self.chance.random() * 30, self.break_one)
        while self._events:
            self.now, _, do, arguments = heapq.heappop(self._events)
            assert self.now < LONGEST_S, "streams that do not end"
            do(*arguments)
        for node in self.nodes.values():
            for (peer, number), half in node.halves.items():
                self.check(half, self.nodes[peer].halves.get((node.key, number)))

    def check(self, half: Half, far: Half | None) -> None:
        """One direction of a stream, from its reader's end."""
        assert half.ended, "a stream that did not end"
        if far is None:
            assert half.why is not None, "one end of a stream is closed in peace, and the other never opened"
            assert not self.weather.is_kind, half.why
            return
        assert half.got == far.to_write[: len(half.got)], "other bytes"
        if half.has_all or half.why is None:
            assert half.got == far.to_write, "an end too early"
        if self.weather.is_kind:
            assert half.why is None, half.why
