"""The relayed streams of one node: who may open how many, whose turn it is on each carrier, and outages.

A stream belongs to one kind of carrier, and goes by the first relay where both ends have one. Each carrier
sends one frame a stream in turn. When the way to a member changes, its streams ask what arrived and go on
from there. A stream whose member stays away ends, and so does one whose far end knows nothing of it.

Numbers: 40 random bits of the node's start, a counter, and one bit for which of the two keys opened it. So no
stream meets one of a former life, and both ends never take the same number.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from protocol.errors import LocalProtocolError, ProtocolError
from protocol.relay.admission import CarrierKind
from protocol.relay.frames import Absence, Frame, FrameKind
from protocol.relay.stream import (
    BOUNDS,
    Bounds,
    Ended,
    Opened,
    Phase,
    Stream,
    StreamAction,
    StreamId,
)
from protocol.relay.ways import CLOSED_S, STALLED_S, Away, CarrierId, Line, Ways
from protocol.wire.ids import Key

BASE_BITS = 40
"""Random bits of a stream's number."""
_COUNTER_BITS = 23
_NUMBERS = 1 << 64
FULL_PROBE_S = 0.25
"""So long after a relay dropped frames, the sender asks what arrived."""
REMEMBERED = 1024
"""Ended streams whose last word is repeated if the far end has missed it."""
LAST_WORDS = 256
"""Frames of no stream's turn that wait on one carrier; more are dropped, and asked for again."""
_QUESTIONS = (FrameKind.OPEN, FrameKind.PROBE)
"""They are answered by the relay that brings them, too: so an end knows whether this relay carries."""
NO_RELAY = "no relay can be reached"
"""Why no member is reached while this node has no connection to any relay."""
_AWAY = {
    None: NO_RELAY,
    Absence.SILENT: "it is away: its connection to the relay broke",
    Absence.CLOSED: "it is away: it has closed its connection to the relay",
}


@dataclass(frozen=True, slots=True)
class Ready:
    """Frames wait for a carrier: `next_frame` returns them."""

    carrier: CarrierId


@dataclass(frozen=True, slots=True)
class Limited:
    """A relay carries no more. `why`: its sentence, for people."""

    relay: int
    why: str


Action = StreamAction | Ready | Limited


class NoStream(ProtocolError):
    """A stream cannot be opened; the text says why."""


@dataclass(slots=True, eq=False)
class _Carried:
    """A stream and how it is carried."""

    stream: Stream
    line: Line
    since: float
    turn: CarrierId | None = None
    """The carrier on which it waits for its turn."""


@dataclass(slots=True)
class _Turns:
    """What waits for one carrier: streams in turn, and before them last words of those that are over.

    Answers by another relay than a stream's own are among the last words.
    """

    last_words: deque[Frame] = field(default_factory=deque)
    streams: deque[_Carried] = field(default_factory=deque)


class Streams:
    """The ends of all streams of one node. Times are in seconds, of a clock that never jumps."""

    def __init__(
        self, me: Key, members: Iterable[Key], relays: int, base: int, now: float, bounds: Bounds = BOUNDS
    ) -> None:
        """Nothing is connected yet.

        Args:
            me: the own key.
            members: the keys that may open streams here, and to which streams may be opened.
            relays: how many relays the roster names.
            base: BASE_BITS random bits, drawn when the process starts.
            now: the time.
            bounds: sizes and numbers.
        """
        self._me = me
        self._members = frozenset(members) - {me}
        self._bounds = bounds
        self._counter = base << _COUNTER_BITS
        self._ways = Ways(self._members, relays, now)
        self._streams: dict[StreamId, _Carried] = {}
        self._of_peer: dict[Key, dict[StreamId, _Carried]] = {member: {} for member in self._members}
        self._turns: dict[CarrierId, _Turns] = {}
        """The carriers that are up."""
        self._ended: OrderedDict[StreamId, tuple[Frame, ...]] = OrderedDict()
        """The last words on each ended stream: RESET, or CREDIT and FIN."""
        self._processes: dict[Key, int] = {}
        self._deadline: float | None = None

    # -- what others read ----------------------------------------------------------------------------

    @property
    def deadline(self) -> float | None:
        """When `tick` is due, at the latest; None: never."""
        return self._deadline

    @property
    def members(self) -> frozenset[Key]:
        """The other members of the swarm."""
        return self._members

    def away(self, member: Key) -> Away | None:
        """Since when a member is away; None while a relay leads to it, as far as is known."""
        return self._ways.away((member, CarrierKind.CONTROL))

    def seen(self, member: Key) -> CarrierId | Away | None:
        """The carrier by which a member is there, or since when it is missed; None: never seen."""
        return self._ways.seen(member)

    def room(self, stream: StreamId) -> int:
        """How many bytes a stream takes now; zero or less: none. `Room` follows. Zero if it has ended."""
        carried = self._streams.get(stream)
        return 0 if carried is None else carried.stream.room(self._window)

    @property
    def _window(self) -> int:
        """What each stream may keep for resending."""
        return max(self._bounds.credit, self._bounds.kept // max(1, len(self._streams)))

    # -- the local ends ------------------------------------------------------------------------------

    def open(self, peer: Key, kind: CarrierKind, now: float) -> tuple[StreamId, list[Action]]:
        """Opens a stream to a member. Raises NoStream."""
        if peer not in self._members:
            raise NoStream("it is no member of this swarm")
        if not self._has_place(peer):
            raise NoStream("too many streams are open")
        while True:
            number = (self._counter * 2 + (self._me < peer)) % _NUMBERS
            self._counter += 1
            if (peer, number) not in self._streams:
                break
        name = peer, number
        carried = self._add(name, Phase.OPENING, kind, now)
        if away := self._ways.away(carried.line):
            self._wake_at(max(away.until, now + CLOSED_S))
        return name, self._seek_turn(carried)

    def write(self, stream: StreamId, data: memoryview) -> list[Action]:
        """Sends bytes, which share their memory: nobody may change them. An ended stream drops them."""
        carried = self._streams.get(stream)
        if carried is None:
            return []
        carried.stream.write(data, self._window)
        return self._seek_turn(carried)

    def consume(self, stream: StreamId, count: int) -> list[Action]:
        """The reader took so many bytes of those that were `Received`."""
        carried = self._streams.get(stream)
        if carried is None:
            return []
        carried.stream.consume(count)
        return self._settle(carried, [])

    def finish(self, stream: StreamId) -> list[Action]:
        """Writes no more to a stream; the far end may still."""
        carried = self._streams.get(stream)
        if carried is None:
            return []
        carried.stream.finish()
        return self._seek_turn(carried)

    def abort(self, stream: StreamId) -> list[Action]:
        """Ends a stream at once, for both ends."""
        carried = self._streams.get(stream)
        return [] if carried is None else self._end(carried, "it was closed")

    # -- members and carriers ------------------------------------------------------------------------

    def change_members(self, members: Iterable[Key], now: float) -> list[Action]:
        """From now on these keys are the members. The streams of others end, and theirs are refused."""
        before, self._members = self._members, frozenset(members) - {self._me}
        actions: list[Action] = []
        for member in sorted(before - self._members):
            for carried in list(self._of_peer[member].values()):
                actions += self._end(carried, "it is no longer a member")
            del self._of_peer[member]
            self._processes.pop(member, None)
            self._ways.drop(member)
        for member in sorted(self._members - before):
            self._of_peer[member] = {}
            self._ways.add(member, now)
        return actions

    def connect(self, carrier: CarrierId, now: float) -> list[Action]:
        """A carrier is up: the streams that go by it ask what has arrived."""
        if carrier in self._turns:
            raise LocalProtocolError(f"{carrier} was connected already")
        self._turns[carrier] = _Turns()
        return self._move(self._ways.connect(carrier, now), now)

    def disconnect(self, carrier: CarrierId, now: float) -> list[Action]:
        """A carrier broke; what waited for it goes another way, or waits."""
        turns = self._turns.pop(carrier, None)
        if turns is None:
            return []
        for carried in turns.streams:
            carried.turn = None
        return self._move(self._ways.disconnect(carrier, now), now)

    def next_frame(self, carrier: CarrierId, now: float) -> Frame | None:
        """The frame that a carrier sends next; None if there is none now. `Ready` follows."""
        turns = self._turns.get(carrier)
        if turns is None:
            return None
        if turns.last_words:
            return turns.last_words.popleft()
        while turns.streams:
            carried = turns.streams.popleft()
            frame = carried.stream.next_frame(now)
            self._wake_at(carried.stream.deadline)
            if carried.stream.has_frame:
                turns.streams.append(carried)
            else:
                carried.turn = None
            if frame is not None:
                return frame
        return None

    def receive(self, carrier: CarrierId, frame: Frame, now: float) -> list[Action]:
        """Processes a frame that a carrier brought."""
        if carrier not in self._turns:
            raise LocalProtocolError(f"a frame came by {carrier}, which is not connected")
        if frame.kind is FrameKind.LIMIT:
            return [Limited(carrier.relay, bytes(frame.data).decode(errors="replace"))]
        if frame.key not in self._members:
            return self._refuse(carrier, frame)
        match frame.kind:
            case FrameKind.AWAY:
                how = Absence.CLOSED if frame.offset == Absence.CLOSED else Absence.SILENT
                return self._move(self._ways.leave(carrier, frame.key, how, now), now)
            case FrameKind.HERE:
                return self._arrived(carrier, frame, now)
            case FrameKind.FULL:
                for carried in self._on((frame.key, carrier.kind)):
                    carried.stream.probe_within(FULL_PROBE_S, now)
                    self._wake_at(carried.stream.deadline)
                return []
        actions = self._move(self._ways.hear(carrier, frame.key, now), now)
        found = self._streams.get((frame.key, frame.stream))
        if found is None:
            return [*actions, *self._unknown(carrier, frame, now)]
        said = found.stream.receive(frame, self._window, now)
        self._wake_at(found.stream.deadline)
        if frame.kind in _QUESTIONS and carrier != self._ways.way(found.line):
            actions += self._say_last(carrier, *found.stream.answers(frame.offset))
        return [*actions, *self._settle(found, said, by_far_end=frame.kind is FrameKind.RESET)]

    # -- time ----------------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Action]:
        """Probes streams without progress, tries another relay, and ends those that have waited too long."""
        if self._deadline is None or now < self._deadline:
            return []
        self._deadline = None
        actions: list[Action] = []
        stalled: dict[Line, None] = {}
        for carried in list(self._streams.values()):
            away = self._ways.away(carried.line)
            if away is not None and now >= max(away.until, carried.since + CLOSED_S):
                actions += self._end(carried, _AWAY[away.why])
                continue
            if carried.turn is not None:
                carried.stream.excuse(now)
            if not carried.stream.tick(now):
                actions += self._end(carried, "its far end does not answer")
            else:
                self._wake_at(carried.stream.deadline)
                if away is not None:
                    self._wake_at(max(away.until, carried.since + CLOSED_S))
                elif carried.stream.unanswered_s(now) >= STALLED_S:
                    stalled[carried.line] = None
                actions += self._seek_turn(carried)
        for line in stalled:
            actions += self._try_other_relay(line, now)
        return actions

    def _try_other_relay(self, line: Line, now: float) -> list[Action]:
        """Sends the streams of a member that does not answer by another relay, if one leads to it."""
        actions: list[Action] = []
        for carried in self._on(line) if self._ways.doubt(line, now) else ():
            carried.stream.ask_again(now)
            self._leave_turn(carried)
            actions += self._seek_turn(carried)
        return actions

    def _wake_at(self, at: float | None) -> None:
        if at is not None and (self._deadline is None or at < self._deadline):
            self._deadline = at

    # -- ways ----------------------------------------------------------------------------------------

    def _move(self, lines: list[Line], now: float) -> list[Action]:
        """Sends the streams of these lines the way that leads to their members now, or lets them wait."""
        actions: list[Action] = []
        for line in lines:
            away = self._ways.away(line)
            for carried in self._on(line):
                if away is None:
                    carried.stream.resume(now)
                else:
                    carried.stream.pause()
                    self._wake_at(max(away.until, carried.since + CLOSED_S))
                self._leave_turn(carried)
                actions += self._seek_turn(carried)
        return actions

    def _arrived(self, carrier: CarrierId, frame: Frame, now: float) -> list[Action]:
        """A relay says HERE. Its streams end if the member has another process by now."""
        member, process = frame.key, frame.stream
        before = self._processes.get(member)
        self._processes[member] = process
        actions: list[Action] = []
        if before not in (None, process):
            for carried in list(self._of_peer[member].values()):
                actions += self._end(carried, "its process has ended")
        lines = self._ways.arrive(carrier, member, now)
        return [*actions, *self._move(lines or [(member, carrier.kind)], now)]

    def _on(self, line: Line) -> list[_Carried]:
        return [carried for carried in self._of_peer[line[0]].values() if carried.line == line]

    def _seek_turn(self, carried: _Carried) -> list[Action]:
        """Lines a stream up for its turn, if it has something to send and a way to go."""
        if carried.turn is not None or not carried.stream.has_frame:
            return []
        carrier = self._ways.way(carried.line)
        if carrier is None and carried.stream.phase is Phase.OPENING:
            carrier = self._ways.guess(carried.line[1])
        if carrier is None:
            return []
        carried.turn = carrier
        self._turns[carrier].streams.append(carried)
        return [Ready(carrier)]

    def _leave_turn(self, carried: _Carried) -> None:
        if carried.turn is not None:
            self._turns[carried.turn].streams.remove(carried)
            carried.turn = None

    # -- streams that begin and end ------------------------------------------------------------------

    def _has_place(self, peer: Key) -> bool:
        return len(self._of_peer[peer]) < self._bounds.of_a_pair and len(self._streams) < self._bounds.streams

    def _add(self, name: StreamId, first: Phase, kind: CarrierKind, now: float) -> _Carried:
        carried = _Carried(Stream(name, self._bounds, first, now), (name[0], kind), now)
        self._wake_at(carried.stream.deadline)
        self._streams[name] = self._of_peer[name[0]][name] = carried
        return carried

    def _unknown(self, carrier: CarrierId, frame: Frame, now: float) -> list[Action]:
        """Answers a frame of a stream that is not open here: it may begin, or be over."""
        peer, number = name = frame.key, frame.stream
        last_words = self._ended.get(name)
        if last_words is not None:
            return self._say_last(carrier, *_repeated(last_words, frame.kind))
        is_own = bool(number & 1) is (self._me < peer)
        if is_own or frame.kind is FrameKind.PROBE:
            return self._refuse(carrier, frame)
        if frame.kind is not FrameKind.OPEN:
            return []  # its OPEN may still come, and the far end will ask
        if not self._has_place(peer):
            return self._refuse(carrier, frame)
        carried = self._add(name, Phase.OPEN, carrier.kind, now)
        carried.stream.answer(frame.offset)
        return [Opened(name), *self._seek_turn(carried)]

    def _refuse(self, carrier: CarrierId, frame: Frame) -> list[Action]:
        """Answers RESET to anything but a RESET."""
        if frame.kind is FrameKind.RESET:
            return []
        return self._say_last(carrier, Frame(frame.key, FrameKind.RESET, frame.stream))

    def _settle(
        self, carried: _Carried, said: list[StreamAction], *, by_far_end: bool = False
    ) -> list[Action]:
        """Ends a stream that has come to its end; else lets it take its turn."""
        stream = carried.stream
        if stream.phase is not Phase.ENDED:
            return [*said, *self._seek_turn(carried)]
        peer, number = stream.name
        self._leave_turn(carried)
        del self._streams[stream.name], self._of_peer[peer][stream.name]
        broke = bool(said) and isinstance(said[-1], Ended)
        last_words = (Frame(peer, FrameKind.RESET, number),) if broke else stream.last_words
        self._ended[stream.name] = last_words
        if len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)
        carrier = self._ways.way(carried.line)
        actions: list[Action] = [*said] if broke else [*said, Ended(stream.name, None)]
        if carrier is not None and not by_far_end:
            actions += self._say_last(carrier, last_words[0])
        return actions

    def _end(self, carried: _Carried, why: str) -> list[Action]:
        return self._settle(carried, carried.stream.end(why))

    def _say_last(self, carrier: CarrierId, *frames: Frame) -> list[Action]:
        waiting = self._turns[carrier].last_words
        if not frames or len(waiting) + len(frames) > LAST_WORDS:
            return []
        waiting += frames
        return [Ready(carrier)]


def _repeated(last_words: tuple[Frame, ...], asked: FrameKind) -> tuple[Frame, ...]:
    """Which last words answer a frame of an ended stream. Two ends that have both ended must fall silent."""
    match asked:
        case FrameKind.RESET:
            return ()
        case FrameKind.PROBE:
            return last_words
        case FrameKind.CREDIT | FrameKind.AT if last_words[0].kind is FrameKind.CREDIT:
            return ()
        case _:
            return last_words[:1]
