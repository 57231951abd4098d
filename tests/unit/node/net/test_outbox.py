"""Queues and frames kept for a retry: bounded in number and bytes, and all budgets are released."""

import asyncio

import pytest

from node.net.outbox import Budget, Outbox
from node.net.outgoing import resending
from node.net.outgoing.resending import KEPT_FRAMES, Kept, Outgoing
from protocol.wire.codec import Frame


async def test_first_in_first_out_and_the_head_stays_until_it_is_done():
    budget = Budget(10, None)
    outbox = Outbox(3, budget)
    assert [outbox.put(name, 4) for name in "abc"] == [True, True, False]
    assert [await outbox.head(), await outbox.head()] == ["a", "a"]
    outbox.done()
    assert budget.taken_bytes == 4
    assert outbox.put("d", 0)
    assert outbox.put("e", 6)
    assert not outbox.put("f", 0)  # as many as may be
    assert outbox.clear() == ("b", "d", "e")
    assert (len(outbox), budget.taken_bytes) == (0, 0)
    await outbox.drained()


async def test_who_reads_waits_for_something_and_who_ends_for_nothing():
    outbox = Outbox(3, Budget(10, None))
    reading = asyncio.create_task(outbox.head())
    await asyncio.sleep(0)
    assert not reading.done()
    outbox.put("a", 1)
    drained = asyncio.create_task(outbox.drained())
    assert await reading == "a"
    assert not drained.done()
    outbox.done()
    await drained


def test_a_part_takes_from_the_whole_and_leaves_it_as_it_was_where_that_is_full():
    whole = Budget(10, None)
    parts = Budget(8, whole), Budget(8, whole)
    taken = [parts[part].take(count) for part, count in ((0, 9), (0, 7), (1, 4), (1, 3))]
    assert taken == [False, True, False, True]
    assert (parts[0].taken_bytes, parts[1].taken_bytes, whole.taken_bytes) == (7, 3, 10)
    parts[0].give(7)
    assert (parts[0].taken_bytes, whole.taken_bytes) == (0, 3)


def outgoing(size):
    return Outgoing(None, Frame(bytes(size), b""))


def test_the_last_messages_are_kept_by_their_numbers_as_far_as_there_is_room():
    whole = Budget(1 << 30, None)
    kept = Kept(whole)
    sent = [outgoing(10) for _ in range(KEPT_FRAMES + 2)]
    for each in sent:
        kept.sent(each)
    assert [kept.take(number) for number in (0, 1)] == [None, None]
    assert kept.take(2) is sent[2]
    assert kept.take(2) is None
    assert whole.taken_bytes == 10 * (KEPT_FRAMES - 1)
    kept.clear()
    assert (kept.take(5), whole.taken_bytes) == (None, 0)
    whole = Budget(100, None)
    kept = Kept(whole)
    for size in (60, 40, 70, 101, 10):
        kept.sent(outgoing(size))
    assert [kept.take(number) is not None for number in range(5)] == [False, False, False, False, True]
    assert whole.taken_bytes == 0


@pytest.mark.parametrize("begun_s", [0.0, 1000.0])
def test_it_is_sent_again_in_growing_intervals_and_not_for_ever(begun_s):
    each, now_s, waits = outgoing(1), begun_s, []
    while (wait_s := each.again_in_s(now_s, is_wanted=False)) is not None:
        waits.append(wait_s)
        now_s += wait_s
    assert waits[:6] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]
    assert set(waits[5:]) == {resending.AGAIN_CAP_S}
    assert resending.AGAIN_FOR_S - 1 < sum(waits) <= resending.AGAIN_FOR_S
    assert len(waits) < 20
    assert each.again_in_s(now_s + 3600, is_wanted=True) == resending.AGAIN_CAP_S
