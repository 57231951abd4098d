"""How a node ends: at the first signal it begins nothing new, at the second it waits for nothing."""

import asyncio
from dataclasses import replace

import pytest

from node.runtime.plan import Plan
from node.runtime.record.ending import Alone, End, Stopping, exit_status, given_up, others_count_on
from node.system.errors import UserError
from node.task.load import load_task
from protocol.actions import Failed, Reason
from tests.patience import ENOUGH_S

PLAN = Plan(load_task("digits", []), "{}", "test", rounds=20, sums=20, tries=20)


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
    await asyncio.wait((endless,), timeout=ENOUGH_S)
    assert endless.cancelled()
    assert stopping.asked


async def test_what_is_there_already_counts_more():
    stopping = Stopping()
    stopping.at_once()
    result = asyncio.get_running_loop().create_future()
    result.set_result(7)
    assert await stopping.unless(result) == 7


def failed(reason):
    return Failed(reason, 7, (), None)


def test_a_node_gives_up_after_as_many_rounds_alone_in_a_row_as_its_run_has_sums():
    for reason in (Reason.GROUP_TIMEOUT, Reason.SUMS_TIMEOUT, Reason.OUTDATED):
        assert given_up(failed(reason), 19, False, PLAN, 0) is None
        assert given_up(failed(reason), 20, False, PLAN, 0) is End.ALONE


def test_a_node_whose_owner_has_it_wait_gives_up_without_a_first_group():
    waits, timeout = replace(PLAN, waits=True), failed(Reason.GROUP_TIMEOUT)
    assert given_up(timeout, 1, True, waits, 0) is End.NOBODY_CAME
    assert given_up(timeout, 1, True, PLAN, 0) is None, "it does not wait longer than for any other"
    assert given_up(timeout, 1, False, waits, 0) is None, "it has had a group"
    assert given_up(failed(Reason.SUMS_TIMEOUT), 1, True, waits, 0) is None


def test_a_node_of_a_job_ends_when_a_member_of_its_first_sum_did_not_come():
    cohort, timeout = replace(PLAN, cohort=True, waits=True), failed(Reason.GROUP_TIMEOUT)
    assert [given_up(timeout, 1, True, cohort, sums) for sums in (0, 3)] == [End.NOBODY_CAME, End.UNFINISHED]
    assert given_up(failed(Reason.SUMS_TIMEOUT), 1, False, cohort, 3) is None, "it tries again"
    with pytest.raises(
        UserError, match=r"the job stopped unfinished: .*: B did not come, after round 3"
    ) as told:
        exit_status(End.UNFINISHED, cohort, 3, aggregated=3, must_aggregate=False, absent="B")
    assert "or with --again to begin another job with the rest" in str(told.value)


def test_a_node_ends_when_no_sum_can_come_any_more():
    assert given_up(failed(Reason.ALL_SPENT), 0, False, PLAN, 0) is End.SPENT
    assert given_up(failed(Reason.SWARM_FINISHED), 1, False, PLAN, 0) is End.MISSED
    assert [end for end in End if end.is_over] == [End.DONE, End.SPENT]


@pytest.mark.parametrize("must_aggregate", [False, True])
def test_each_end_has_its_exit_status(must_aggregate):
    assert exit_status(End.DONE, PLAN, 20, aggregated=1, must_aggregate=must_aggregate) == 0
    assert exit_status(End.TOLD, PLAN, 7, aggregated=0, must_aggregate=must_aggregate) == 130
    assert exit_status(End.SPENT, PLAN, 12, aggregated=1, must_aggregate=must_aggregate) == 0


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (End.ALONE, r"20 rounds alone in a row, after round 7 of 20: .* is kept; start the same"),
        (End.NOBODY_CAME, r"no group came .*, after round 7 of 20: .* is kept; start the same .*; --wait"),
        (End.MISSED, r"the others have ended their run, .* after round 7 of 20: .* is kept; copy the model"),
        (End.DESERTED, r"nobody .* after round 7 of 20: .* is kept; start the same"),
    ],
)
def test_a_node_that_gave_up_for_want_of_others_says_so_in_one_line(end, said):
    with pytest.raises(Alone, match=said) as told:
        exit_status(end, PLAN, 7, aggregated=0, must_aggregate=False)
    assert told.value.status == 1
    assert "\n" not in str(told.value)
    assert str(told.value).startswith(f"{told.value.why}, after round")
    with pytest.raises(Alone, match=r"after round 0 of 20; (start|copy)"):
        exit_status(end, PLAN, 0, aggregated=0, must_aggregate=False)


def test_who_was_left_behind_in_a_swarm_with_a_list_is_told_to_have_a_member_start_again():
    with pytest.raises(Alone, match=r"kept; ask one of them to run `murmuration start` again, and then run"):
        exit_status(End.MISSED, PLAN, 7, aggregated=0, must_aggregate=False, by_list=True)


def test_peers_of_another_version_are_named_as_the_reason():
    older = [f"127.0.0.1:{port} runs an older version: upgrade all" for port in (1, 2, 3)]
    with pytest.raises(Alone, match=r"is kept; 127.0.0.1:1 runs an older version: upgrade all; start the"):
        exit_status(End.NOBODY_CAME, PLAN, 7, aggregated=0, must_aggregate=False, other_versions=older[:1])
    with pytest.raises(Alone, match=r"upgrade all \(2 more peers likewise\); start the same"):
        exit_status(End.ALONE, PLAN, 7, aggregated=0, must_aggregate=False, other_versions=older)


def test_a_run_without_an_aggregated_round_fails_only_if_its_owner_requires_one():
    assert exit_status(End.DONE, PLAN, 20, aggregated=0, must_aggregate=False) == 0
    with pytest.raises(UserError, match="no round up to 20 of 20 was aggregated, and --require-") as told:
        exit_status(End.DONE, PLAN, 20, aggregated=0, must_aggregate=True)
    assert told.value.status == 1


def test_others_count_on_a_node_from_the_first_share_to_the_last_sum_and_while_all_close():
    phases = ("joining", "idle", "group", "shares", "sums", "following", "catching up", "closing")
    assert [phase for phase in phases if others_count_on(phase)] == ["shares", "sums", "closing"]
