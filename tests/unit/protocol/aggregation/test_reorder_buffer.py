"""Messages that come too early are held within bounds, overall and for each sender."""

from dataclasses import replace

import pytest

from protocol.aggregation.reorder_buffer import ReorderBuffer
from protocol.errors import TooEarly
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.masked_messages import AckVote, Masked, MaskedHead, ViewChange, ViewVote
from tests.parts import members

ONE, TWO = (key.public for key in members(2))
SID = b"\5" * 32
SIGNATURE = bytes(64)


def vote(sender: bytes, holds: bytes = b"") -> ViewChange:
    lock = AckVote(SID, sender, 7, bytes(32), SIGNATURE)
    return ViewChange(ViewVote(SID, sender, 1, holds, (lock,), SIGNATURE), ())


def held(early: ReorderBuffer, message: ViewChange | Masked) -> int:
    """Returns how many of these it holds."""
    for count in range(1000):
        try:
            early.hold(message, ONE, is_expected=True)
        except TooEarly:
            return count
    return 1000


def test_the_whole_of_a_message_counts_not_only_its_payload():
    """A header may be 190 kB: a bound on payloads alone would hold thousands of those."""
    large = vote(ONE, bytes(30_000))
    assert held(ReorderBuffer(100_000), large) == 3
    assert held(ReorderBuffer(100_000), vote(ONE)) > 100
    chunk = Masked(MaskedHead(SID, ONE, 0, bytes(32), SIGNATURE), bytes(40_000))
    assert held(ReorderBuffer(100_000), chunk) == 2


def test_one_sender_leaves_room_for_the_others():
    early = ReorderBuffer(30_000)
    few = held(early, vote(ONE, bytes(5_000)))
    assert few == 5
    early.hold(vote(TWO, bytes(20_000)), TWO, is_expected=True)
    assert len(early.take(SID)) == few + 1


def test_strangers_share_their_room_and_take_nobodys():
    early = ReorderBuffer(30_000, of_strangers_bytes=50_000)
    for number in range(2):
        early.hold(vote(ONE, bytes(20_000)), bytes([number]) * 32, is_expected=False)
    with pytest.raises(TooEarly):
        early.hold(vote(ONE, bytes(20_000)), b"3" * 32, is_expected=False)
    early.hold(vote(TWO, bytes(20_000)), TWO, is_expected=True)
    assert len(early.take(SID)) == 3


def test_no_more_senders_have_room_than_a_group_has_members():
    early = ReorderBuffer(30_000)
    for number in range(MAX_MEMBERS + 1):
        early.hold(vote(ONE), number.to_bytes(32, "big"), is_expected=True)
    with pytest.raises(TooEarly):
        early.hold(vote(ONE), TWO, is_expected=True)


def test_what_is_taken_makes_room_and_other_sessions_are_dropped():
    early = ReorderBuffer(30_000)
    early.hold(vote(ONE, bytes(20_000)), ONE, is_expected=True)
    other = replace(vote(TWO), vote=replace(vote(TWO).vote, sid=b"\6" * 32))
    early.hold(other, TWO, is_expected=True)
    assert early.take(SID) == [vote(ONE, bytes(20_000))]
    assert early.take(b"\6" * 32) == []
    early.hold(vote(ONE, bytes(20_000)), ONE, is_expected=True)
    early.drop()
    assert early.take(SID) == []
