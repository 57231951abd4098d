"""One end of a relayed stream: what it says to each frame, and when."""

from __future__ import annotations

import pytest

from protocol.errors import LocalProtocolError
from protocol.relay.frames import Frame, FrameKind
from protocol.relay.stream import (
    GAP_S,
    IDLE_S,
    PROBE_CAP_S,
    PROBE_S,
    SAME_GAP_S,
    UNANSWERED_S,
    Bounds,
    Ended,
    FarFinished,
    Phase,
    Received,
    Room,
    Stream,
)

NAME = bytes([2]) * 32, 5
BOUNDS = Bounds(piece=4, window=16, credit=4, kept=64)
AMPLE = 1 << 20
"""A window larger than the protocol's."""
OPEN, DATA, CREDIT, AT, PROBE, FIN, RESET = (FrameKind(number) for number in range(7))
LIE = [Ended(NAME, "the far end broke the rules of streams")]


def stream(phase=Phase.OPEN, now=0.0):
    return Stream(NAME, BOUNDS, phase, now)


def said(end, now=0.0):
    """All that it sends now: kinds, offsets and data."""
    frames = []
    while (frame := end.next_frame(now)) is not None:
        assert (frame.key, frame.stream) == NAME
        frames.append((frame.kind, frame.offset, bytes(frame.data)))
    assert not end.has_frame
    return frames


def hear(end, kind, offset=0, data=b"", now=0.0, window=AMPLE):
    return end.receive(Frame(*NAME[:1], kind, NAME[1], offset, memoryview(data)), window, now)


def write(end, data, window=AMPLE):
    end.write(memoryview(data), window)


def test_data_go_in_pieces_as_far_as_credit_reaches():
    end = stream()
    write(end, bytes(range(18)))
    assert said(end) == [(DATA, first, bytes(range(first, first + 4))) for first in (0, 4, 8, 12)]
    assert hear(end, CREDIT, 4) == []
    assert said(end) == [(DATA, 16, bytes([16, 17]))]


def test_pieces_share_the_memory_of_what_was_written():
    end, data = stream(), memoryview(bytearray(8))
    end.write(data, AMPLE)
    data[:1] = b"x"
    assert bytes(end.next_frame(0.0).data) == b"x\0\0\0"


def test_an_opener_repeats_open_until_the_first_answer():
    end = stream(Phase.OPENING)
    write(end, b"abc")
    assert said(end) == [(OPEN, 0, b""), (DATA, 0, b"abc")]
    assert end.tick(PROBE_S - 0.1)
    assert not end.has_frame
    assert end.tick(PROBE_S)
    assert said(end, PROBE_S) == [(OPEN, 3, b"")]
    end.resume(PROBE_S)
    assert end.has_frame
    assert hear(end, CREDIT, 0, now=1.5) == []
    assert end.phase is Phase.OPEN
    assert said(end, 1.5) == []
    assert end.deadline == 1.5 + PROBE_S  # for the data


def test_an_answer_that_has_all_leaves_nothing_to_ask():
    end = stream(Phase.OPENING)
    assert said(end) == [(OPEN, 0, b"")]
    hear(end, CREDIT, 0, now=1.0)
    assert end.deadline == 1.0 + IDLE_S


def test_fin_follows_the_answer_and_all_data():
    end = stream(Phase.OPENING)
    write(end, b"ab")
    end.finish()
    end.finish()
    assert said(end) == [(OPEN, 0, b""), (DATA, 0, b"ab")]
    hear(end, CREDIT, 0)
    assert end.phase is Phase.FINISHING
    assert said(end) == [(FIN, 2, b"")]
    hear(end, AT, 2)
    assert said(end) == [(FIN, 2, b"")]
    hear(end, CREDIT, 2)
    assert end.phase is Phase.FINISHING
    hear(end, CREDIT, 3)
    assert end.phase is Phase.FINISHED
    with pytest.raises(LocalProtocolError, match="after its end"):
        write(end, b"c")


def test_what_comes_is_passed_on_once_and_in_order():
    end = stream()
    assert hear(end, DATA, 0, b"abc") == [Received(NAME, memoryview(b"abc"))]
    assert hear(end, DATA, 0, b"abc") == []
    assert hear(end, DATA, 1, b"bcd") == [Received(NAME, memoryview(b"d"))]
    assert hear(end, DATA, 6, b"g") == []
    assert said(end) == [(AT, 4, b"")]
    assert hear(end, DATA, 7, b"h") == []
    assert said(end) == []  # once a gap
    assert hear(end, DATA, 4, b"ef") == [Received(NAME, memoryview(b"ef"))]
    assert hear(end, DATA, 7, b"h") == []
    assert said(end) == [(AT, 6, b"")]


def test_credit_follows_the_reader():
    end = stream()
    hear(end, DATA, 0, bytes(4))
    hear(end, DATA, 4, bytes(4))
    end.consume(3)
    assert said(end) == []
    end.consume(1)
    end.consume(1)
    assert said(end) == [(CREDIT, 5, b"")]
    with pytest.raises(LocalProtocolError, match="more of a stream than came"):
        end.consume(4)


def test_an_end_that_hears_fin_credits_it_when_all_is_read():
    end = stream()
    hear(end, DATA, 0, b"ab")
    assert hear(end, FIN, 3) == []
    assert said(end) == [(AT, 2, b"")]
    assert hear(end, FIN, 2) == [FarFinished(NAME)]
    assert hear(end, FIN, 2) == []
    assert hear(end, DATA, 0, b"ab") == []
    assert said(end) == []
    end.consume(2)
    assert end.phase is Phase.READ
    assert said(end) == [(CREDIT, 3, b"")]
    write(end, b"answer")
    end.finish()
    assert end.phase is Phase.CLOSING
    assert said(end) == [(DATA, 0, b"answ"), (DATA, 4, b"er"), (FIN, 6, b"")]
    hear(end, CREDIT, 7)
    assert end.phase is Phase.ENDED
    assert end.last_words == (Frame(*NAME[:1], CREDIT, 5, 3), Frame(*NAME[:1], FIN, 5, 6))


@pytest.mark.parametrize("order", [(CREDIT, FIN), (FIN, CREDIT)])
def test_both_ends_may_finish_at_once(order):
    end = stream()
    end.finish()
    assert said(end) == [(FIN, 0, b"")]
    for kind in order:
        assert end.phase in (Phase.FINISHING, Phase.FINISHED, Phase.CLOSING)
        hear(end, kind, 1 if kind is CREDIT else 0)
    assert end.phase is Phase.ENDED


def test_it_goes_back_to_where_the_far_end_is():
    end = stream()
    write(end, b"abcdefgh")
    said(end)
    hear(end, AT, 2)
    assert said(end) == [(DATA, 2, b"cd"), (DATA, 4, b"efgh")]
    hear(end, CREDIT, 3)
    hear(end, AT, 3, now=SAME_GAP_S)
    assert said(end) == [(DATA, 3, b"d"), (DATA, 4, b"efgh")]


def test_it_goes_back_once_for_one_gap():
    end = stream()
    write(end, b"abcdefgh")
    said(end)
    hear(end, AT, 4, now=1.0)
    assert said(end, 1.0) == [(DATA, 4, b"efgh")]
    hear(end, AT, 4, now=1.0 + SAME_GAP_S / 2)
    assert said(end, 1.5) == []
    hear(end, AT, 4, now=1.0 + SAME_GAP_S)
    assert said(end, 2.0) == [(DATA, 4, b"efgh")]


def test_credit_overtakes_what_is_to_be_sent_again():
    end = stream()
    write(end, b"abcdefgh")
    said(end)
    hear(end, AT, 0)
    hear(end, CREDIT, 6)
    assert said(end) == [(DATA, 4, b"efgh")]
    hear(end, AT, 4)  # older than the credit
    assert said(end) == []
    hear(end, CREDIT, 5)
    hear(end, CREDIT, 8, now=2.0)
    assert end.deadline == 2.0 + IDLE_S


@pytest.mark.parametrize(("kind", "offset"), [(CREDIT, 9), (AT, 9)])
def test_an_end_that_claims_what_was_never_sent_loses_the_stream(kind, offset):
    end = stream()
    write(end, bytes(20))
    end.next_frame(0.0)
    end.next_frame(0.0)
    assert hear(end, kind, offset) == LIE
    assert end.phase is Phase.ENDED
    assert said(end) == []


@pytest.mark.parametrize(
    ("first", "lie"),
    [
        ((DATA, 0, b""), (DATA, 0, bytes(17))),
        ((DATA, 0, bytes(16)), (DATA, 16, b"x")),
        ((DATA, 0, b"abc"), (FIN, 2, b"")),
        ((FIN, 0, b""), (FIN, 1, b"")),
        ((FIN, 0, b""), (DATA, 0, b"x")),
    ],
)
def test_data_beyond_the_window_and_a_fin_that_cannot_be_end_the_stream(first, lie):
    end = stream()
    hear(end, *first)
    assert hear(end, *lie) == LIE


def test_a_reset_ends_it():
    end = stream()
    write(end, b"abc")
    assert hear(end, RESET) == [Ended(NAME, "the far end has closed it")]
    assert end.phase is Phase.ENDED
    assert said(end) == []


def test_an_end_without_progress_asks_at_doubled_intervals_and_gives_up():
    end = stream()
    write(end, b"abc")
    said(end)
    now, asked = 0.0, []
    while end.tick(now):
        asked += [now for kind, *_ in said(end, now) if kind is PROBE]
        now = end.deadline
    waits = [later - earlier for earlier, later in zip([0.0, *asked], asked, strict=False)]
    assert waits[:4] == [1.0, 1.0, 2.0, 4.0]
    assert max(waits) == PROBE_CAP_S
    assert UNANSWERED_S <= now < UNANSWERED_S + PROBE_CAP_S


def test_a_reader_that_stands_still_is_waited_for_while_its_end_answers():
    end = stream()
    write(end, b"abc")
    said(end)
    now = 0.0
    while now < 10 * UNANSWERED_S:
        assert end.tick(now)
        if any(kind is PROBE for kind, *_ in said(end, now)):
            hear(end, CREDIT, 0, now=now)
        now = end.deadline


def test_an_end_that_does_not_fill_a_gap_loses_the_stream():
    end = stream()
    hear(end, DATA, 4, b"abcd", now=1.0)
    now = 1.0
    while end.tick(now):
        hear(end, CREDIT, 0, now=now)
        now = end.deadline
    assert 1.0 + GAP_S <= now < 1.0 + GAP_S + IDLE_S
    end.resume(now)
    assert end.tick(end.deadline)


def test_a_probe_is_answered_by_credit_and_by_at_if_less_has_come():
    end = stream()
    hear(end, DATA, 0, b"abc")
    end.consume(2)
    hear(end, PROBE, 3)
    assert said(end) == [(CREDIT, 2, b"")]
    hear(end, PROBE, 4)
    assert said(end) == [(CREDIT, 2, b""), (AT, 3, b"")]


def test_after_an_outage_it_says_what_it_has_and_asks():
    end = stream()
    hear(end, DATA, 0, b"abc")
    write(end, b"xy")
    said(end)
    end.pause()
    assert end.deadline is None
    assert end.tick(99.0)
    end.resume(100.0)
    assert said(end, 100.0) == [(AT, 3, b""), (PROBE, 2, b"")]
    assert end.deadline == 100.0 + PROBE_S
    assert hear(end, CREDIT, 2, now=100.5) == []
    assert end.deadline == 100.5 + IDLE_S


def test_an_idle_end_asks_once_in_a_while():
    end = stream()
    assert end.deadline == IDLE_S
    hear(end, DATA, 0, b"abc", now=20.0)
    assert end.tick(IDLE_S)
    assert not end.has_frame
    assert end.deadline == 20.0 + IDLE_S
    assert end.tick(20.0 + IDLE_S)
    assert said(end, 50.0) == [(PROBE, 0, b"")]
    hear(end, CREDIT, 0, now=51.0)
    assert end.deadline == 51.0 + IDLE_S


def test_an_end_whose_frames_wait_asks_later():
    end = stream()
    end.excuse(1.0)
    assert end.deadline == IDLE_S
    write(end, b"abc")
    said(end, 1.0)
    end.excuse(1.5)
    assert end.deadline == 1.5 + PROBE_S


def test_it_asks_sooner_where_frames_were_dropped():
    end = stream()
    end.probe_within(0.25, 1.0)
    assert end.deadline == IDLE_S
    write(end, b"abc")
    said(end, 1.0)
    end.probe_within(0.25, 1.0)
    assert end.deadline == 1.25
    end.pause()
    end.probe_within(0.25, 1.0)
    assert end.deadline is None


def test_a_full_stream_says_when_it_has_room_again():
    end = stream()
    write(end, bytes(12))
    assert end.room(AMPLE) == 4
    write(end, bytes(4))
    assert end.room(AMPLE) == 0
    said(end)
    assert hear(end, CREDIT, 4) == []
    assert hear(end, CREDIT, 8) == [Room(NAME)]
    assert hear(end, CREDIT, 12) == []


def test_its_window_may_be_smaller_than_the_protocol_s():
    end = stream()
    write(end, bytes(8), window=8)
    assert end.room(8) == 0
    assert end.room(4) == -4
    said(end)
    assert hear(end, CREDIT, 4, window=8) == [Room(NAME)]
