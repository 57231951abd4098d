"""One end of a relayed stream: offsets, credit, and what to do about frames that were lost.

    this end                          the far end
    OPEN  ──▶                                        repeated until the first answer
    DATA, DATA, FIN  ──▶                             FIN counts as one byte, so that it is acknowledged, too
              ◀──  CREDIT(consumed up to)            the sender may send up to one window beyond this
              ◀──  AT(received up to)                after a gap: the sender goes back there
    PROBE(sent up to)  ──▶                           without progress for a second; answered by CREDIT, and by
                                                     AT if less has arrived

What was sent is kept until it is acknowledged. The receiver takes bytes in their order only: it drops what
comes after a gap, says AT once a gap, and ignores what it already has. So frames may be lost, doubled and
reordered. An end that says what cannot be true loses the stream, and never changes a byte of it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum

from protocol.errors import LocalProtocolError
from protocol.relay.frames import PIECE_BYTES, Frame, FrameKind
from protocol.transitions import Course, Step, Table
from protocol.wire.ids import Key

StreamId = tuple[Key, int]
"""The key at the far end, and the stream's number."""
PROBE_S = 1.0
"""A stream without progress asks the far end after this time, and then at doubled intervals."""
PROBE_CAP_S = 8.0
IDLE_S = 30.0
"""A stream on which nothing came for this long asks the far end, too: its RESET may be lost."""
UNANSWERED_S = 60.0
"""A stream whose far end answers no probe for this long is over."""
GAP_S = 120.0
"""A stream is over whose far end does not fill a gap for this long: it has lost what is missing."""
SAME_GAP_S = 1.0
"""For this long after it went back, an end takes an AT of the same offset for one of the same gap."""
_NOTHING = memoryview(b"")
_LIE = "the far end broke the rules of streams"


class Phase(Enum):
    """Which ends may still write. An end's last word is its FIN."""

    OPENING = "opening"
    OPEN = "open"
    FINISHING = "finishing"
    FINISHED = "finished"
    READ = "read"
    """To the end; this end may still write."""
    CLOSING = "closing"
    ENDED = "ended"


class Event(Enum):
    """What happens to a stream."""

    ANSWER = "the first answer"
    FINISH = "this end writes no more"
    ACKNOWLEDGE = "the far end has consumed this end's FIN"
    FAR_FINISH = "this end has consumed the far end's FIN"
    BREAK = "RESET, a lie, or no way for too long"


_GIVE_UP = Step(Phase.ENDED, "RESET, unless it came from the far end")
STEPS: Table[Phase, Event] = {
    (Phase.OPENING, Event.ANSWER): Step(Phase.OPEN, "DATA goes on; OPEN is not repeated any more"),
    (Phase.OPENING, Event.BREAK): _GIVE_UP,
    (Phase.OPEN, Event.FINISH): Step(Phase.FINISHING, "FIN, after all DATA"),
    (Phase.OPEN, Event.FAR_FINISH): Step(Phase.READ, "CREDIT beyond the far end's FIN"),
    (Phase.OPEN, Event.BREAK): _GIVE_UP,
    (Phase.FINISHING, Event.ACKNOWLEDGE): Step(Phase.FINISHED, "CREDIT for what still comes"),
    (Phase.FINISHING, Event.FAR_FINISH): Step(Phase.CLOSING, "CREDIT beyond the far end's FIN"),
    (Phase.FINISHING, Event.BREAK): _GIVE_UP,
    (Phase.FINISHED, Event.FAR_FINISH): Step(Phase.ENDED, "CREDIT beyond the far end's FIN"),
    (Phase.FINISHED, Event.BREAK): _GIVE_UP,
    (Phase.READ, Event.FINISH): Step(Phase.CLOSING, "FIN, after all DATA"),
    (Phase.READ, Event.BREAK): _GIVE_UP,
    (Phase.CLOSING, Event.ACKNOWLEDGE): Step(Phase.ENDED, "nothing more"),
    (Phase.CLOSING, Event.BREAK): _GIVE_UP,
}
"""The first phase is OPENING where the stream is opened, OPEN where it is accepted."""


@dataclass(frozen=True)
class Bounds:
    """Sizes in bytes. All but `kept` are the protocol's: both ends need the same. Tests use small ones."""

    piece: int = PIECE_BYTES
    """The most data of one frame."""
    window: int = 1 << 20
    """How far a sender may be ahead of what the reader has consumed."""
    credit: int = 128 << 10
    """CREDIT is due each time that so much more was consumed; no window is smaller."""
    streams: int = 1024
    """Streams of a node."""
    of_a_pair: int = 16
    """Streams with one other key."""
    kept: int = 64 << 20
    """What is kept for resending, of all streams together. Where they are many, windows shrink to a step."""


BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class Opened:
    """The far end has opened a stream."""

    stream: StreamId


@dataclass(frozen=True, slots=True)
class Received:
    """The next bytes of a stream; whoever took them calls `consume`."""

    stream: StreamId
    data: memoryview


@dataclass(frozen=True, slots=True)
class FarFinished:
    """After these bytes the far end writes no more."""

    stream: StreamId


@dataclass(frozen=True, slots=True)
class Room:
    """A stream that was full takes bytes again."""

    stream: StreamId


@dataclass(frozen=True, slots=True)
class Ended:
    """A stream is over. `why`: in a few words; None if both ends had finished."""

    stream: StreamId
    why: str | None


StreamAction = Opened | Received | FarFinished | Room | Ended


class Stream:
    """One end. `Streams` owns it, and calls `next_frame` when it is this stream's turn."""

    def __init__(self, name: StreamId, bounds: Bounds, first: Phase, now: float) -> None:
        self.name = name
        self._bounds = bounds
        self._course: Course[Phase, Event] = Course(STEPS, first)
        self._due: dict[FrameKind, None] = {FrameKind.OPEN: None} if first is Phase.OPENING else {}
        """Frames without data that wait for their turn, once each; their offsets are those of then."""
        self._written = self._sent = self._acknowledged = 0
        self._furthest = 0
        """The most that was ever sent; `_sent` goes back."""
        self._went_back: tuple[int, float] = (-1, 0.0)
        """Where it last went back to, and when."""
        self._limit = bounds.window
        self._kept: deque[tuple[int, memoryview]] = deque()
        """What was sent and is not acknowledged, with offsets."""
        self._queued: deque[tuple[int, memoryview]] = deque()
        """What was not sent, or is to be sent again."""
        self._finish_at: int | None = None
        self._received = self._consumed = self._credited = 0
        self._far_finish_at: int | None = None
        self._gap_at = -1
        """What had arrived when AT was last said because of a gap."""
        self._gap_since = now
        self._is_full = False
        self._heard_at = now
        self._is_waiting = False
        """Whether an answer of the far end is due: something was sent that it has not acknowledged."""
        self._unanswered_since = now
        self._probe_at: float | None = now + IDLE_S
        self._probe_every_s = PROBE_S

    @property
    def phase(self) -> Phase:
        """The phase of this end."""
        return self._course.phase

    @property
    def last_words(self) -> tuple[Frame, Frame]:
        """What lets the far end finish, too, after this end has: CREDIT beyond its FIN, and the own FIN."""
        peer, number = self.name
        fin = self._written - 1
        return Frame(peer, FrameKind.CREDIT, number, self._received), Frame(peer, FrameKind.FIN, number, fin)

    @property
    def deadline(self) -> float | None:
        """When `tick` is due; None: never."""
        return self._probe_at

    # -- the local side ------------------------------------------------------------------------------

    def room(self, window: int) -> int:
        """How many bytes it takes now, of a window that `Streams` gives it; it may be below zero."""
        return min(window, self._bounds.window) - (self._written - self._acknowledged)

    def write(self, data: memoryview, window: int) -> None:
        """Takes bytes to send, in pieces that share their memory: nobody may change them any more."""
        if self._finish_at is not None or self.phase is Phase.ENDED:
            raise LocalProtocolError("a stream was written to after its end")
        piece = self._bounds.piece
        for first in range(0, len(data), piece):
            part = data[first : first + piece]
            self._queued.append((self._written, part))
            self._written += len(part)
        self._is_full = self.room(window) <= 0

    def finish(self) -> None:
        """Writes no more; FIN follows the last byte."""
        if self._finish_at is None:
            self._finish_at = self._written
            self._written += 1
            if self.phase is not Phase.OPENING:
                self._course.step(Event.FINISH)

    def consume(self, count: int) -> None:
        """The reader has taken so many of the received bytes."""
        most = self._received if self._far_finish_at is None else self._far_finish_at
        if self._consumed + count > most:
            raise LocalProtocolError("a reader has consumed more of a stream than came")
        self._consumed += count
        self._credit()

    def _credit(self) -> None:
        """Makes CREDIT due where enough was consumed, or all."""
        if self._consumed == self._far_finish_at:
            self._consumed += 1
            self._due[FrameKind.CREDIT] = None
            self._course.step(Event.FAR_FINISH)
        elif self._consumed - self._credited >= self._bounds.credit:
            self._due[FrameKind.CREDIT] = None

    # -- time ----------------------------------------------------------------------------------------

    def resume(self, now: float) -> None:
        """Compares with the far end, after frames may have been lost: on a new carrier or another relay."""
        self.ask_again(now)
        self._unanswered_since = now

    def ask_again(self, now: float) -> None:
        """Does the same by another relay, as the far end has not answered: that time counts on."""
        self._gap_at = -1
        if self.phase is Phase.OPENING:
            self._due[FrameKind.OPEN] = None
        else:
            self._due[FrameKind.AT] = self._due[FrameKind.PROBE] = None
        since = now - self.unanswered_s(now)
        self._expect(now)
        self._unanswered_since = since

    def unanswered_s(self, now: float) -> float:
        """For how long an answer of the far end has been due; zero if none is."""
        return now - self._unanswered_since if self._is_waiting else 0.0

    def probe_within(self, wait_s: float, now: float) -> None:
        """Probes soon: frames of this stream were dropped."""
        if self._is_waiting and self._probe_at is not None:
            self._probe_at = min(self._probe_at, now + wait_s)

    def excuse(self, now: float) -> None:
        """The far end need not have answered yet: frames of this stream still wait for their own carrier."""
        if self._is_waiting:
            self._unanswered_since = now
            self._probe_at = now + PROBE_S

    def pause(self) -> None:
        """Probes no more while there is no way to the far end; `resume` follows."""
        self._probe_at = None

    def tick(self, now: float) -> bool:
        """Asks the far end, if that is due; returns False if that has not answered for too long."""
        if self._probe_at is None or now < self._probe_at:
            return True
        if not self._is_waiting:
            if now < self._heard_at + IDLE_S:
                self._probe_at = self._heard_at + IDLE_S
                return True
            self._expect(now)
        has_gap = self._gap_at == self._received
        if self.unanswered_s(now) >= UNANSWERED_S or (has_gap and now - self._gap_since >= GAP_S):
            return False
        self._due[FrameKind.OPEN if self.phase is Phase.OPENING else FrameKind.PROBE] = None
        self._probe_at = now + self._probe_every_s
        self._probe_every_s = min(2 * self._probe_every_s, PROBE_CAP_S)
        return True

    def _expect(self, now: float) -> None:
        """From now on an answer is due."""
        self._is_waiting = True
        self._unanswered_since = now
        self._probe_every_s = PROBE_S
        self._probe_at = now + PROBE_S

    def _rest(self, now: float) -> None:
        """No answer is due any more."""
        self._is_waiting = False
        self._probe_at = now + IDLE_S
        self._due.pop(FrameKind.PROBE, None)

    # -- sending -------------------------------------------------------------------------------------

    @property
    def has_frame(self) -> bool:
        """Whether `next_frame` has one."""
        return bool(self._due) or self._may_send

    @property
    def _may_send(self) -> bool:
        if self._queued:
            offset, piece = self._queued[0]
            return offset + len(piece) <= self._limit
        return self._finish_at == self._sent and self.phase is not Phase.OPENING

    def next_frame(self, now: float) -> Frame | None:
        """The frame that it sends in its turn; None if it has none."""
        peer, number = self.name
        if self._due:
            kind = next(iter(self._due))
            del self._due[kind]
            return Frame(peer, kind, number, self._offset_of(kind, now))
        if not self._may_send:
            return None
        if not self._is_waiting:
            self._expect(now)
        if not self._queued:
            kind, offset, piece = FrameKind.FIN, self._sent, _NOTHING
            self._sent += 1
        else:
            kind, (offset, piece) = FrameKind.DATA, self._queued.popleft()
            self._kept.append((offset, piece))
            self._sent = offset + len(piece)
        self._furthest = max(self._furthest, self._sent)
        return Frame(peer, kind, number, offset, piece)

    def _offset_of(self, kind: FrameKind, now: float) -> int:
        """What a frame without data says when it is sent."""
        match kind:
            case FrameKind.CREDIT:
                self._credited = self._consumed
                return self._consumed
            case FrameKind.AT:
                return self._received
            case _:  # OPEN or PROBE, which want an answer
                if not self._is_waiting:
                    self._expect(now)
                return self._sent

    def _go_back(self, offset: int) -> None:
        """Sends again from `offset` on, which is not acknowledged yet."""
        while self._kept and self._kept[-1][0] + len(self._kept[-1][1]) > offset:
            first, piece = self._kept.pop()
            if first < offset:
                self._kept.append((first, piece[: offset - first]))
                first, piece = offset, piece[offset - first :]
            self._queued.appendleft((first, piece))
        self._sent = offset

    # -- receiving -----------------------------------------------------------------------------------

    def receive(self, frame: Frame, window: int, now: float) -> list[StreamAction]:
        """Processes a frame of the far end; the last action may be Ended."""
        self._heard_at = now
        if frame.kind is FrameKind.RESET:
            return self.end("the far end has closed it")
        if self.phase is Phase.OPENING:
            self._answered(now)
        match frame.kind:
            case FrameKind.DATA:
                return self._data(frame, now)
            case FrameKind.CREDIT:
                return self._acknowledge(frame.offset, window, now)
            case FrameKind.AT:
                return self._at(frame.offset, now)
            case FrameKind.FIN:
                return self._far_finish(frame.offset, now)
            case _:  # OPEN or PROBE
                self.answer(frame.offset)
                return []

    def answer(self, offset: int) -> None:
        """Answers the far end, which has sent all before `offset`. What has not come by now is lost."""
        self._due[FrameKind.CREDIT] = None
        if self._received < offset:
            self._due[FrameKind.AT] = None

    def answers(self, offset: int) -> tuple[Frame, ...]:
        """The same answer, to be said at once, and not when it is this stream's turn."""
        peer, number = self.name
        self._credited = self._consumed
        credit = Frame(peer, FrameKind.CREDIT, number, self._consumed)
        return (credit, *((Frame(peer, FrameKind.AT, number, self._received),) * (self._received < offset)))

    def end(self, why: str | None) -> list[StreamAction]:
        """Ends it, and forgets what it keeps."""
        self._course.step(Event.BREAK)
        self._kept.clear()
        self._queued.clear()
        self._due.clear()
        return [Ended(self.name, why)]

    def _answered(self, now: float) -> None:
        self._due.pop(FrameKind.OPEN, None)
        self._course.step(Event.ANSWER)
        self._progress(now)
        if self._finish_at is not None:
            self._course.step(Event.FINISH)

    def _progress(self, now: float) -> None:
        """The far end has more than before."""
        if self._sent > self._acknowledged:
            self._expect(now)
        else:
            self._rest(now)

    def _data(self, frame: Frame, now: float) -> list[StreamAction]:
        end = frame.offset + len(frame.data)
        last = self._credited + self._bounds.window if self._far_finish_at is None else self._far_finish_at
        if end > last:
            return self._lie()
        if frame.offset > self._received:
            self._gap(now)
            return []
        data = frame.data[self._received - frame.offset :]
        if self._far_finish_at is not None or not data:
            return []
        self._received = end
        return [Received(self.name, data)]

    def _far_finish(self, offset: int, now: float) -> list[StreamAction]:
        if self._far_finish_at is not None:
            return [] if offset == self._far_finish_at else self._lie()
        if offset < self._received:
            return self._lie()
        if offset > self._received:
            self._gap(now)
            return []
        self._far_finish_at = offset
        self._received += 1
        self._credit()
        return [FarFinished(self.name)]

    def _gap(self, now: float) -> None:
        """Says AT once a gap."""
        if self._gap_at != self._received:
            self._gap_at, self._gap_since = self._received, now
            self._due[FrameKind.AT] = None

    def _acknowledge(self, offset: int, window: int, now: float) -> list[StreamAction]:
        if offset > self._furthest:
            return self._lie()
        if offset < self._acknowledged:  # an older one
            return []
        self._unanswered_since = now
        if offset == self._acknowledged:
            if offset == self._sent:
                self._rest(now)
            return []
        self._acknowledged, self._limit = offset, offset + self._bounds.window
        for waiting in (self._kept, self._queued):
            while waiting and waiting[0][0] + len(waiting[0][1]) <= offset:
                waiting.popleft()
        self._sent = max(self._sent, offset)
        self._progress(now)
        if self._finish_at is not None and offset > self._finish_at:
            self._course.step(Event.ACKNOWLEDGE)
        if self._is_full and self.room(window) >= min(window, self._bounds.window) // 2:
            self._is_full = False
            return [Room(self.name)]
        return []

    def _at(self, offset: int, now: float) -> list[StreamAction]:
        if offset > self._furthest:
            return self._lie()
        if not self._acknowledged <= offset < self._sent:  # an older one
            return []
        self._unanswered_since = now
        if self._went_back[0] != offset or now - self._went_back[1] >= SAME_GAP_S:
            self._went_back = offset, now
            self._go_back(offset)
        return []

    def _lie(self) -> list[StreamAction]:
        return self.end(_LIE)
