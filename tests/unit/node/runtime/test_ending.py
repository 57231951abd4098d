"""How a node ends: at the first signal it begins nothing new, at the second it waits for nothing."""

import asyncio

import pytest

from node.errors import UserError
from node.runtime.ending import End, Stopping, end_of, exit_status, others_count_on
from node.runtime.plan import Plan
from node.task.load import load_task

PLAN = Plan(20, "digits", "ab" * 32, "test", "{}", load_task("digits", []).aggregation, 3, None)


async def test_asked_once_only_training_ends():
    stopping = Stopping()
    assert not stopping.asked
    stopping.ask()
    assert (stopping.asked, stopping.training.is_set()) == (True, True)
    result = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(result.set_result, 7)
    assert await stopping.unless(result) == 7


async def test_at_once_ends_every_wait_and_cancels_what_was_waited_for():
    stopping = Stopping()
    endless = asyncio.ensure_future(asyncio.Event().wait())
    waiting = asyncio.create_task(stopping.unless(endless))
    asyncio.get_running_loop().call_soon(stopping.at_once)
    assert await waiting is None
    await asyncio.wait((endless,), timeout=30)
    assert endless.cancelled()
    assert stopping.asked


async def test_what_is_there_already_counts_more():
    stopping = Stopping()
    stopping.at_once()
    result = asyncio.get_running_loop().create_future()
    result.set_result(7)
    assert await stopping.unless(result) == 7


def test_why_a_node_ended():
    assert [end_of(False, False), end_of(False, True)] == [End.DONE, End.TOLD]
    assert end_of(True, False) is end_of(True, True) is End.DESERTED


@pytest.mark.parametrize("must_aggregate", [False, True])
def test_each_end_has_its_exit_status(must_aggregate):
    assert exit_status(End.DONE, PLAN, 20, aggregated=1, must_aggregate=must_aggregate) == 0
    assert exit_status(End.TOLD, PLAN, 7, aggregated=0, must_aggregate=must_aggregate) == 130
    with pytest.raises(UserError, match=r"nobody .* after round 7 of 20: start the same") as told:
        exit_status(End.DESERTED, PLAN, 7, aggregated=0, must_aggregate=must_aggregate)
    assert told.value.status == 1


def test_a_run_without_an_aggregated_round_fails_only_if_its_owner_requires_one():
    assert exit_status(End.DONE, PLAN, 20, aggregated=0, must_aggregate=False) == 0
    with pytest.raises(UserError, match="no round up to 20 of 20 was aggregated, and --require-") as told:
        exit_status(End.DONE, PLAN, 20, aggregated=0, must_aggregate=True)
    assert told.value.status == 1


def test_others_count_on_a_node_from_the_first_share_to_the_last_sum_and_while_all_close():
    phases = ("joining", "idle", "group", "shares", "sums", "following", "catching up", "closing")
    assert [phase for phase in phases if others_count_on(phase)] == ["shares", "sums", "closing"]
