"""All streams of a node: numbers, turns, bounds, ways, outages, and frames of streams that are not open."""

from __future__ import annotations

import pytest

from protocol.errors import LocalProtocolError
from protocol.relay.admission import CarrierKind
from protocol.relay.frames import Absence, Frame, FrameKind
from protocol.relay.stream import (
    IDLE_S,
    PROBE_S,
    UNANSWERED_S,
    Bounds,
    Ended,
    FarFinished,
    Opened,
    Received,
    Room,
)
from protocol.relay.streams import FULL_PROBE_S, LAST_WORDS, REMEMBERED, Limited, NoStream, Ready, Streams
from protocol.relay.ways import CLOSED_S, SILENT_S, CarrierId

A, B, C, STRANGER = (bytes([number]) * 32 for number in range(1, 5))
CONTROL, BULK = CarrierKind
BY, ALSO_BY, BULK_BY = CarrierId(0, CONTROL), CarrierId(1, CONTROL), CarrierId(0, BULK)
BOUNDS = Bounds(piece=4, window=16, credit=4, streams=5, of_a_pair=3, kept=32)
BASE = 12345
OPEN, DATA, CREDIT, AT, PROBE, FIN, RESET = (FrameKind(number) for number in range(7))


class End:
    """A node, its machine and a clock."""

    def __init__(self, me=A, *, carriers=(BY, BULK_BY), relays=2, bounds=BOUNDS):
        self.machine = Streams(me, (A, B, C), relays, BASE, 0.0, bounds)
        self.now = 0.0
        for carrier in carriers:
            self.machine.connect(carrier, self.now)

    def open(self, peer=B, kind=CONTROL):
        return self.machine.open(peer, kind, self.now)[0]

    def hear(self, kind, stream, offset=0, data=b"", carrier=BY):
        peer, number = stream
        return self.machine.receive(carrier, Frame(peer, kind, number, offset, memoryview(data)), self.now)

    def accept(self, number, peer=B, carrier=BY):
        assert Opened((peer, number)) in self.hear(OPEN, (peer, number), carrier=carrier)
        assert self.said(carrier) == [(CREDIT, peer, number, 0)]
        return peer, number

    def said(self, carrier=BY):
        frames = []
        while (frame := self.machine.next_frame(carrier, self.now)) is not None:
            frames.append((frame.kind, frame.key, frame.stream, frame.offset))
        return frames

    def kinds(self, carrier=BY):
        return [kind for kind, *_ in self.said(carrier)]

    def tick(self, at):
        self.now = at
        return self.machine.tick(at)

    def relay_says(self, kind, key=B, offset=0, stream=0, carrier=BY):
        return self.machine.receive(carrier, Frame(key, kind, stream, offset), self.now)


@pytest.fixture
def end():
    return End()


def write(end, stream, data):
    return end.machine.write(stream, memoryview(data))


def test_numbers_count_from_random_bits_and_say_which_key_is_the_lower(end):
    assert end.open(B) == (B, (BASE << 24) + 1)
    assert end.open(B) == (B, (BASE << 24) + 3)
    assert End(B).open(A) == (A, BASE << 24)
    last = Streams(B, (A,), 1, (1 << 40) - 1, 0.0)
    last._counter += (1 << 23) - 1
    assert last.open(A, CONTROL, 0.0)[0] == (A, (1 << 64) - 2)
    assert last.open(A, CONTROL, 0.0)[0] == (A, 0)


def test_a_number_that_is_taken_is_left_out(end):
    first = end.open(B)
    end.machine._counter -= 1
    assert end.open(B) == (B, first[1] + 2)


def test_strangers_and_streams_beyond_the_bounds_are_refused(end):
    with pytest.raises(NoStream, match="no member"):
        end.open(STRANGER)
    with pytest.raises(NoStream, match="no member"):
        end.open(A)
    for _ in range(BOUNDS.of_a_pair):
        end.open(B)
    with pytest.raises(NoStream, match="too many"):
        end.open(B)
    assert end.hear(OPEN, (B, 2)) == [Ready(BY)]
    end.open(C)
    end.open(C)
    with pytest.raises(NoStream, match="too many"):
        end.open(C)
    assert end.said()[0] == (RESET, B, 2, 0)


def test_streams_take_turns_one_frame_each(end):
    first, second = end.open(B), end.open(C)
    write(end, first, bytes(12))
    write(end, second, bytes(8))
    assert [(kind, key) for kind, key, *_ in end.said()] == [
        (OPEN, B),
        (OPEN, C),
        (DATA, B),
        (DATA, C),
        (DATA, B),
        (DATA, C),
        (DATA, B),
    ]


def test_a_stream_stays_on_its_kind_of_carrier(end):
    stream = end.open(B, BULK)
    write(end, stream, b"abc")
    assert end.said(BY) == []
    assert end.kinds(BULK_BY) == [OPEN, DATA]
    taken = end.accept(2, carrier=BULK_BY)
    write(end, taken, b"abc")
    assert end.kinds(BULK_BY) == [DATA]


def test_a_stream_from_its_opening_to_its_end():
    a, b = End(A), End(B)
    stream = a.open(B)
    there = A, stream[1]
    assert b.hear(OPEN, there) == [Opened(there), Ready(BY)]
    assert b.said() == [(CREDIT, *there, 0)]
    assert a.said() == [(OPEN, *stream, 0)]
    a.hear(CREDIT, stream)
    assert b.hear(DATA, there, 0, b"abcd") == [Received(there, memoryview(b"abcd"))]
    assert b.machine.consume(there, 4) == [Ready(BY)]
    assert b.said() == [(CREDIT, *there, 4)]
    assert b.hear(FIN, there, 4) == [FarFinished(there), Ready(BY)]
    assert b.said() == [(CREDIT, *there, 5)]
    write(a, stream, b"abcd")
    a.machine.finish(stream)
    assert a.kinds() == [DATA, FIN]
    a.hear(CREDIT, stream, 5)
    assert b.machine.finish(there) == [Ready(BY)]
    assert b.said() == [(FIN, *there, 0)]
    assert a.hear(FIN, stream, 0) == [FarFinished(stream), Ended(stream, None), Ready(BY)]
    assert a.said() == [(CREDIT, *stream, 1)]
    assert b.hear(CREDIT, there, 1) == [Ended(there, None), Ready(BY)]
    assert a.machine.room(stream) == 0
    for end, name in ((a, stream), (b, there)):
        for action in (end.machine.finish, end.machine.abort):
            assert action(name) == []
        assert end.machine.consume(name, 1) == []
        assert write(end, name, b"late") == []


def test_a_reader_that_ends_last_ends_the_stream(end):
    stream = end.accept(2)
    end.machine.finish(stream)
    end.said()
    end.hear(CREDIT, stream, 1)
    end.hear(DATA, stream, 0, b"ab")
    assert end.hear(FIN, stream, 2) == [FarFinished(stream)]
    assert end.machine.consume(stream, 2) == [Ended(stream, None), Ready(BY)]
    assert end.said() == [(CREDIT, *stream, 3)]


def test_the_last_credit_is_repeated_for_an_end_that_missed_it(end):
    stream = end.accept(2)
    end.machine.finish(stream)
    end.said()
    end.hear(CREDIT, stream, 1)
    end.hear(FIN, stream, 0)
    assert end.kinds() == [CREDIT]
    for kind in (OPEN, DATA, PROBE, FIN):
        assert end.hear(kind, stream) == [Ready(BY)]
        assert end.said() == [(CREDIT, *stream, 1), (FIN, *stream, 0)][: 1 + (kind is PROBE)]
    for kind in (CREDIT, AT, RESET):
        assert end.hear(kind, stream) == []


def test_a_reset_is_repeated_for_an_end_that_missed_it(end):
    stream = end.accept(2)
    assert end.machine.abort(stream) == [Ended(stream, "it was closed"), Ready(BY)]
    assert end.said() == [(RESET, *stream, 0)]
    for kind in (OPEN, DATA, PROBE, FIN, CREDIT, AT):
        assert end.hear(kind, stream) == [Ready(BY)]
        assert end.said() == [(RESET, *stream, 0)]
    assert end.hear(RESET, stream) == []


def test_a_reset_and_a_lie_are_answered_as_they_deserve(end):
    stream, liar = end.open(B), end.open(C)
    end.said()
    assert end.hear(RESET, stream) == [Ended(stream, "the far end has closed it")]
    assert end.hear(CREDIT, liar, 1) == [Ended(liar, "the far end broke the rules of streams"), Ready(BY)]
    assert end.said() == [(RESET, *liar, 0)]


def test_frames_of_streams_that_are_not_open(end):
    own, theirs = (B, (BASE << 24) + 1), (B, 2)
    for kind in (OPEN, DATA, PROBE, FIN, CREDIT, AT):
        assert end.hear(kind, own) == [Ready(BY)]
        assert end.said() == [(RESET, *own, 0)]
    assert end.hear(RESET, own) == end.hear(RESET, theirs) == []
    for kind in (DATA, FIN, CREDIT, AT):  # its OPEN may be late
        assert end.hear(kind, theirs) == []
    assert end.hear(PROBE, theirs) == [Ready(BY)]
    assert end.said() == [(RESET, *theirs, 0)]
    assert end.hear(OPEN, (STRANGER, 2)) == [Ready(BY)]
    assert end.said() == [(RESET, STRANGER, 2, 0)]
    assert end.hear(RESET, (STRANGER, 2)) == []


def test_an_open_after_lost_data_says_that_they_are_lost(end):
    assert end.hear(OPEN, (B, 2), 7) == [Opened((B, 2)), Ready(BY)]
    assert end.said() == [(CREDIT, B, 2, 0), (AT, B, 2, 0)]


def test_last_words_and_the_memory_of_ended_streams_are_bounded(end):
    for number in range(LAST_WORDS + 1):
        end.hear(PROBE, (B, 2 * number))
    assert len(end.said()) == LAST_WORDS
    for number in range(REMEMBERED + 1):
        end.machine.abort(end.accept(2 * number))
        end.said()
    assert end.hear(CREDIT, (B, 0)) == []
    assert end.hear(CREDIT, (B, 2)) == [Ready(BY)]


def test_windows_shrink_where_streams_are_many(end):
    stream = end.open(B)
    assert end.machine.room(stream) == BOUNDS.window
    for peer in (B, C, C):
        end.open(peer)
    assert end.machine.room(stream) == BOUNDS.kept // 4
    write(end, stream, bytes(8))
    assert end.machine.room(stream) == 0
    end.said()
    assert end.hear(CREDIT, stream, 4) == [Room(stream)]
    assert end.hear(CREDIT, stream, 8) == []  # it said that it has room at 4
    assert End(bounds=Bounds(credit=64, kept=1)).machine._window == 64


# -- ways and outages ------------------------------------------------------------------------------


def test_streams_wait_for_a_carrier():
    end = End(carriers=())
    stream = end.open(B)
    write(end, stream, b"abc")
    assert end.machine.next_frame(BY, 0.0) is None
    assert end.machine.connect(BY, 1.0) == [Ready(BY)]
    assert end.kinds() == [OPEN, DATA]
    with pytest.raises(LocalProtocolError, match="already"):
        end.machine.connect(BY, 1.0)
    with pytest.raises(LocalProtocolError, match="not connected"):
        end.hear(CREDIT, stream, carrier=ALSO_BY)


def test_after_a_break_each_stream_compares_with_its_far_end(end):
    stream = end.accept(2)
    write(end, stream, b"abcdefgh")
    assert end.kinds() == [DATA, DATA]
    write(end, stream, b"ij")
    assert end.machine.disconnect(BY, 1.0) == []
    assert end.machine.disconnect(BY, 1.0) == []
    assert end.machine.away(B).why is None
    end.machine.connect(BY, 2.0)
    assert end.machine.away(B) is None
    assert end.kinds() == [AT, PROBE, DATA]


def test_a_relay_that_brings_no_answer_is_left_for_another_one_by_which_the_far_end_answers():
    """The streams of a pair move together; that of another member stays."""
    end, far = (End(me, carriers=(BY, ALSO_BY)) for me in (A, B))
    stream, second, other = end.open(B), end.open(B), end.open(C)
    assert end.kinds() == [OPEN, OPEN, OPEN]
    end.hear(CREDIT, other)
    for at in (1.0, 3.0):
        assert Ready(ALSO_BY) not in end.tick(at)
        end.said()
    actions = end.tick(7.0)
    assert actions.count(Ready(ALSO_BY)) == 2
    assert end.said(BY) == []
    assert end.said(ALSO_BY) == [(OPEN, *stream, 0), (OPEN, *second, 0)]
    theirs = far.accept(stream[1], peer=A)
    far.hear(OPEN, theirs, carrier=ALSO_BY)
    assert far.said(ALSO_BY) == [(CREDIT, *theirs, 0)]
    far.hear(PROBE, theirs, 3, carrier=ALSO_BY)
    assert far.said(ALSO_BY) == [(CREDIT, *theirs, 0), (AT, *theirs, 0)]


def test_a_far_end_that_answers_by_no_relay_loses_its_stream_as_by_one():
    end = End(carriers=(BY, ALSO_BY))
    stream = end.accept(2)
    write(end, stream, b"abcd")
    end.said()
    actions, moves = [], 0
    while not any(isinstance(action, Ended) for action in actions):
        actions = end.tick(end.machine.deadline)
        moves += PROBE in end.kinds(ALSO_BY)
        end.said(BY)
    assert UNANSWERED_S <= end.now < UNANSWERED_S + 8.0
    assert moves > 3
    assert actions == [Ended(stream, "its far end does not answer"), Ready(BY)] or Ready(ALSO_BY) in actions


def test_streams_move_to_another_relay_and_back():
    end = End(carriers=(BY, ALSO_BY))
    stream = end.accept(2)
    write(end, stream, bytes(12))
    assert end.machine.next_frame(BY, 0.0).offset == 0
    assert end.relay_says(FrameKind.AWAY) == [Ready(ALSO_BY)]
    assert end.said(BY) == []
    assert end.kinds(ALSO_BY) == [AT, PROBE, DATA, DATA]
    write(end, stream, b"x")
    assert end.relay_says(FrameKind.HERE) == [Ready(BY)]
    assert end.kinds(ALSO_BY) == []
    assert end.kinds(BY) == [AT, PROBE, DATA]
    end.relay_says(FrameKind.AWAY)
    end.said(ALSO_BY)
    assert end.hear(PROBE, stream, 0, carrier=BY)  # it is there again, although the relay did not say so
    assert end.machine.seen(B) == BY


@pytest.mark.parametrize(
    ("absence", "lasts_s", "why"),
    [
        (Absence.CLOSED, CLOSED_S, "it is away: it has closed its connection to the relay"),
        (Absence.SILENT, SILENT_S, "it is away: its connection to the relay broke"),
    ],
)
def test_a_member_that_stays_away_loses_its_streams(end, absence, lasts_s, why):
    stream, other = end.open(B), end.open(C)
    end.said()
    end.now = 10.0
    assert end.relay_says(FrameKind.AWAY, offset=absence) == []
    assert end.tick(10.0 + lasts_s - 0.5) in ([], [Ready(BY)])  # the other is asked
    assert end.tick(10.0 + lasts_s)[0] == Ended(stream, why)
    assert end.machine.room(other) > 0


def test_without_a_carrier_streams_last_as_long(end):
    stream = end.open(B)
    end.said()
    end.machine.disconnect(BY, 10.0)
    assert end.tick(10.0 + SILENT_S - 0.1) == []
    assert end.tick(10.0 + SILENT_S) == [Ended(stream, "no relay can be reached")]
    assert end.tick(99.0) == []


def test_a_stream_to_a_member_that_is_long_away_asks_and_ends_soon(end):
    end.relay_says(FrameKind.AWAY, offset=Absence.CLOSED)
    end.now = 100.0
    stream = end.open(B)
    assert end.said() == [(OPEN, *stream, 0)]  # for its relay may not have said that it is back
    assert end.relay_says(FrameKind.AWAY, offset=Absence.CLOSED) == []
    assert end.tick(100.0 + PROBE_S) == [Ready(BY)]
    assert end.tick(100.0 + CLOSED_S)[0] == Ended(
        stream, "it is away: it has closed its connection to the relay"
    )


def test_an_away_of_an_unknown_kind_counts_as_silence(end):
    end.relay_says(FrameKind.AWAY, offset=7)
    assert end.machine.away(B).why is Absence.SILENT


def test_another_process_of_a_member_ends_its_streams(end):
    stream = end.open(B)
    end.said()
    assert end.relay_says(FrameKind.HERE, stream=7) == [Ready(BY)]
    assert end.kinds() == [OPEN]
    end.relay_says(FrameKind.HERE, stream=7, carrier=BULK_BY)
    assert end.kinds() == []
    assert end.relay_says(FrameKind.HERE, stream=8) == [Ended(stream, "its process has ended"), Ready(BY)]


def test_a_relay_that_is_full_is_asked_soon(end):
    stream, other = end.open(B), end.open(C)
    end.said()
    end.hear(CREDIT, stream)
    end.hear(CREDIT, other)
    write(end, stream, b"abc")
    assert end.kinds() == [DATA]
    assert end.relay_says(FrameKind.FULL) == []
    assert end.machine.deadline <= FULL_PROBE_S
    assert end.tick(FULL_PROBE_S) == [Ready(BY)]
    assert end.said() == [(PROBE, *stream, 3)]


def test_a_stream_that_has_lost_its_reason_to_speak_passes_its_turn(end):
    stream = end.accept(2)
    assert end.tick(IDLE_S) == [Ready(BY)]
    end.hear(CREDIT, stream)
    assert end.said() == []


def test_a_relay_that_carries_no_more_says_so(end):
    frame = Frame(A, FrameKind.LIMIT, data=memoryview("no more \N{EM DASH} today".encode() + b"\xff"))
    assert end.machine.receive(BY, frame, 0.0) == [Limited(0, "no more \N{EM DASH} today\ufffd")]


def test_a_far_end_that_never_answers_loses_the_stream(end):
    stream = end.open(B)
    actions = []
    while Ended(stream, "its far end does not answer") not in actions:
        end.said()
        actions = end.tick(end.machine.deadline)
    assert end.now >= UNANSWERED_S
    assert end.said() == [(RESET, *stream, 0)]
    assert end.tick(end.now + IDLE_S) == []
    assert end.machine.deadline is None


def test_a_stream_that_waits_for_its_own_carrier_blames_nobody(end):
    stream = end.open(B)
    write(end, stream, bytes(8))
    assert end.machine.next_frame(BY, 0.0).kind is OPEN
    while end.now < 2 * UNANSWERED_S:
        assert end.tick(end.machine.deadline) == []
    assert end.kinds() == [DATA, DATA]


def test_members_are_all_others(end):
    assert end.machine.members == {B, C}


def test_who_is_no_longer_a_member_loses_its_streams_and_a_later_one_may_have_some(end):
    stream = end.open(B)
    with pytest.raises(NoStream, match="no member"):
        end.open(STRANGER)
    end.said()
    end.relay_says(FrameKind.HERE, stream=7)
    done = end.machine.change_members((A, C, STRANGER), 1.0)
    assert Ended(stream, "it is no longer a member") in done
    assert end.kinds() == [RESET]
    assert end.machine.members == {C, STRANGER}
    assert end.machine.seen(B) is end.machine.away(B) is None
    end.hear(OPEN, (B, 2))
    assert end.said() == [(RESET, B, 2, 0)]
    end.open(STRANGER)
    assert end.kinds() == [OPEN]
