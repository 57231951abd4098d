"""Who is left out, for how long, and how many sums a member can spoil that does what it likes."""

import math
import random

import pytest

from protocol.actions import Due, Fault, Strike, TakenIn, Withheld
from protocol.relay.ways import SILENT_S
from protocol.swarm.meeting.suspicion import FORGIVEN_AFTER, LEFT_OUT_FROM, Suspicion
from tests.parts import NOW, members, settings

KEYS = members(6)
ME, SILENT, OTHER = (key.public for key in KEYS[:3])
OTHERS = len(KEYS) - 1
BASE = 4


def suspicion(leave_out: int = BASE, run_steps: int = 1) -> Suspicion:
    own = settings(KEYS[0], leave_out=leave_out, run_steps=run_steps)
    return Suspicion(own)


def withheld(*keys: bytes, due: Due = Due.VECTOR, sid: bytes = b"s" * 32, disputes=()) -> Withheld:
    return Withheld(sid, due, keys, disputes)


def fails(one: Suspicion, *keys: bytes, cost_s: float = 0.0, at: float = NOW, **about) -> Suspicion:
    one.ended(at)
    one.failed(withheld(*keys, **about) if keys or about else None, OTHERS, cost_s, at)
    return one


def works(one: Suspicion, *keys: bytes, at: float = NOW) -> Suspicion:
    one.ended(at)
    one.completed(keys, at)
    return one


def lengths(one: Suspicion) -> int:
    """Returns for how many sums of others the silent member is left out."""
    for count in range(1000):
        if SILENT not in one.left_out:
            return count
        works(one, ME, OTHER)
    return -1


def test_a_member_that_fails_once_and_comes_back_is_left_out_of_the_next_sum_alone():
    one = fails(suspicion(), SILENT)
    assert (one.left_out, lengths(one)) == ((SILENT,), 1)
    assert (one.strikes(SILENT), one.rounds_out(SILENT)) == (1, 0)
    for _ in range(FORGIVEN_AFTER):
        works(one, SILENT, OTHER)
    assert one.strikes(SILENT) == 0
    assert lengths(fails(one, SILENT)) == 1, "the first one is forgiven"


def test_the_second_failure_leaves_it_out_and_each_further_one_for_twice_as_long():
    one, times = suspicion(), []
    for _ in range(6):
        fails(one, SILENT)
        times.append(lengths(one))

    assert times == [1, BASE, 2 * BASE, 4 * BASE, 8 * BASE, 16 * BASE]


def test_it_is_left_out_for_eight_times_the_seconds_that_it_cost():
    one = fails(fails(suspicion(), SILENT), SILENT, cost_s=10.0)
    for _ in range(BASE):
        works(one, OTHER, at=NOW + 79.9)
    assert one.left_out == (SILENT,), "quick sums do not shorten it"
    works(one, OTHER, at=NOW + 80.0)
    assert one.left_out == ()
    fails(one, SILENT, cost_s=10.0)
    for _ in range(2 * BASE):
        works(one, OTHER, at=NOW + 159.9)
    assert one.left_out == (SILENT,), "the third time it is twice as long"


def test_a_sum_that_waited_counts_like_one_that_failed_and_its_result_takes_nothing_back():
    one = suspicion()
    for _ in range(2):
        works(one, ME, OTHER)
        one.delayed(withheld(SILENT), OTHERS, 3.0, NOW)
    one.healed(b"s" * 32, True, NOW)
    assert one.left_out == (SILENT,)
    assert one.news()[0] == Strike(SILENT, Fault.WAITED, Due.VECTOR, BASE, is_first=True)


def test_two_that_contradict_each_other_are_for_themselves_to_keep_apart():
    one = suspicion()
    for _ in range(5):
        fails(one, due=Due.JOINED, disputes=((OTHER, SILENT),))
    assert (one.left_out, one.strikes(SILENT), one.strikes(OTHER)) == ((), 0, 0)


def test_the_disputes_of_the_last_session_count_until_a_session_has_none():
    pair = (OTHER, SILENT)
    one = fails(suspicion(), due=Due.SUM, disputes=(pair,))
    assert one.disputes == (pair,)
    assert fails(one, OTHER).disputes == ()
    assert works(fails(one, due=Due.SUM, disputes=(pair,)), OTHER).disputes == ()


def test_a_contradiction_is_forgotten_after_enough_good_sums():
    one = fails(suspicion(), due=Due.JOINED, disputes=((OTHER, SILENT),))
    for _ in range(FORGIVEN_AFTER):
        works(one, SILENT)
    fails(one, due=Due.JOINED, disputes=((KEYS[3].public, SILENT),))
    assert one.strikes(SILENT) == 0


def test_who_contradicts_one_after_the_other_is_left_out_and_they_are_not():
    one = suspicion()
    for victim, strikes in zip((key.public for key in KEYS[2:5]), (0, 2, 3), strict=True):
        fails(one, due=Due.JOINED, disputes=((victim, SILENT),))
        assert one.strikes(SILENT) == strikes
        assert one.left_out == ((SILENT,) if strikes else ())
        lengths(one)
    assert one.news()[0] == Strike(SILENT, Fault.CONTRADICTS, Due.JOINED, BASE, is_first=False)
    fails(one, due=Due.JOINED, disputes=((KEYS[2].public, SILENT),))
    assert (one.strikes(SILENT), one.strikes(KEYS[2].public)) == (4, 0)


def test_a_failure_while_it_is_left_out_begins_that_time_again_and_is_no_further_strike():
    """As where no group forms without it: a cut link of a minute parts nobody for an hour."""
    one = suspicion()
    for _ in range(9):
        fails(one, SILENT)
        works(one, OTHER)
    assert one.strikes(SILENT) == LEFT_OUT_FROM
    assert lengths(fails(one, SILENT)) == BASE
    assert lengths(fails(one, SILENT)) == 2 * BASE, "back again, it fails again"


def test_what_lies_between_two_failures_takes_none_back_before_it_is_enough():
    one = fails(suspicion(), SILENT)
    for _ in range(FORGIVEN_AFTER - 1):
        works(one, SILENT)
    assert fails(one, SILENT).left_out == (SILENT,), "not only those in a row count"


def test_a_sum_that_it_is_in_ends_the_time_and_not_the_memory():
    one = fails(fails(suspicion(), SILENT), SILENT)
    works(one, SILENT, OTHER)
    assert one.left_out == ()
    fails(one, SILENT)
    assert lengths(one) == 2 * BASE


def test_time_goes_on_in_failed_sums_too():
    one = fails(fails(suspicion(), SILENT), SILENT)
    for _ in range(BASE):
        assert one.left_out == (SILENT,)
        fails(one)
    assert one.left_out == ()


@pytest.mark.parametrize("due", Due)
def test_whatever_is_withheld_counts(due):
    assert fails(fails(suspicion(), SILENT, due=due), SILENT, due=due).left_out == (SILENT,)


def test_who_hears_hardly_anybody_is_cut_off_itself():
    one = suspicion()
    for _ in range(5):
        fails(one, *(key.public for key in KEYS[1:4]))
    assert one.left_out == ()
    assert fails(fails(one, SILENT, OTHER), SILENT, OTHER).left_out == tuple(sorted((SILENT, OTHER)))


def test_with_a_task_that_leaves_nobody_out_nothing_counts():
    one = suspicion(leave_out=0)
    for _ in range(5):
        fails(one, SILENT)
    assert (one.left_out, one.strikes(SILENT), one.news()) == ((), 0, [])


def test_a_session_that_has_a_result_after_all_takes_its_strike_back():
    one = fails(fails(suspicion(), SILENT), SILENT, sid=b"2" * 32)
    one.healed(b"s" * 32, True, NOW)
    assert one.left_out == (SILENT,), "an earlier session is no longer remembered"
    one.healed(b"2" * 32, True, NOW)
    one.healed(b"2" * 32, True, NOW)
    assert one.left_out == ()
    assert one.strikes(SILENT) == 1


@pytest.mark.parametrize(("later_s", "left"), [(SILENT_S, ()), (SILENT_S + 1.0, (SILENT,))])
def test_a_session_that_failed_as_this_node_was_cut_off_itself_takes_its_strike_back(later_s, left):
    one = fails(suspicion(), SILENT)
    one.cut_off(NOW + later_s)
    one.cut_off(NOW + later_s)
    assert (one.left_out, one.strikes(SILENT)) == (left, len(left))


COST_S = 5.0


def sent_late(one: Suspicion, at: float) -> None:
    """An additive session fails at COST_S, and has its result as long again after that."""
    fails(one, SILENT, cost_s=COST_S, at=at + COST_S)
    one.healed(b"s" * 32, False, at + 2 * COST_S)


def made_others_wait(one: Suspicion, at: float) -> None:
    works(one, ME, SILENT, at=at + COST_S)
    one.delayed(withheld(SILENT), OTHERS, COST_S, at + COST_S)


TRIALS = [(sent_late, 2 * COST_S), (made_others_wait, COST_S)]
"""What a member does whose session has a result, and the seconds that it costs."""


@pytest.mark.parametrize(("acts", "costs_s"), TRIALS)
def test_where_nothing_but_time_was_lost_a_strike_is_taken_back_after_eight_times_as_long(acts, costs_s):
    one = suspicion()
    acts(one, NOW)
    assert (one.strikes(SILENT), one.left_out) == (1, (SILENT,))
    clean_at = NOW + 9 * costs_s
    works(one, SILENT, at=clean_at - 0.1)
    works(one, OTHER, at=clean_at)
    assert one.strikes(SILENT) == 1, "it takes a sum with it to its end"
    works(one, SILENT, at=clean_at)
    assert one.strikes(SILENT) == 0
    works(one, SILENT, at=clean_at)
    assert one.strikes(SILENT) == 0


@pytest.mark.parametrize(("acts", "costs_s"), TRIALS)
def test_the_time_begins_when_it_is_back_and_another_strike_ends_it(acts, costs_s):
    one = suspicion()
    for at in (NOW, NOW + 20):
        acts(one, at)
    back_at = NOW + 20 + COST_S * (1 + 8)
    works(one, SILENT, at=back_at + 8 * costs_s - 0.1)
    assert one.strikes(SILENT) == 2
    fails(one, SILENT, at=NOW + 2000)
    works(one, SILENT, at=NOW + 10_000)
    assert one.strikes(SILENT) == 3, "a charge was lost: only many sums take this back"


@pytest.mark.parametrize(("acts", "costs_s"), TRIALS)
@pytest.mark.parametrize("strikes", [1, 2, 3])
def test_who_uses_this_takes_a_ninth_of_the_time(acts, costs_s, strikes):
    """It does it again whenever it has fewer strikes than that. A sum takes 2 s: 50 of them are no sooner."""
    one, at, lost_s = suspicion(), NOW, 0.0
    while at < NOW + 20_000:
        if SILENT not in one.left_out and one.strikes(SILENT) < strikes:
            acts(one, at)
            lost_s, at = lost_s + costs_s, at + costs_s
        else:
            works(one, ME, OTHER, *(() if SILENT in one.left_out else (SILENT,)), at=at)
            at += 2.0
    assert lost_s <= (at - NOW) / 9 + 2 * costs_s


def test_a_link_that_breaks_now_and_then_collects_no_strikes():
    one = suspicion()
    for number in range(100):
        works(one, ME, OTHER, SILENT, at=NOW + 60 * number)
        if number % 10 == 0:
            made_others_wait(one, NOW + 60 * number)
            assert one.strikes(SILENT) == 1


def test_each_step_is_told_once_and_in_rounds():
    one = fails(suspicion(leave_out=20, run_steps=5), SILENT)
    assert one.news() == [Strike(SILENT, Fault.FAILED, Due.VECTOR, 4, is_first=True)]
    fails(one, SILENT)
    over = TakenIn(SILENT, is_time_over=True)
    assert one.news() == [over, Strike(SILENT, Fault.FAILED, Due.VECTOR, 4, is_first=False)]
    assert one.rounds_out(SILENT) == 4
    for _ in range(15):
        works(one, OTHER)
    assert one.rounds_out(SILENT) == 1
    for _ in range(5):
        works(one, OTHER)
    assert one.news() == [over]
    assert (one.strikes(SILENT), one.rounds_out(SILENT)) == (2, 0)
    works(fails(one, SILENT), SILENT)
    assert one.news()[-1] == TakenIn(SILENT, is_time_over=False)
    assert one.news() == []


def test_who_has_this_node_left_out_is_shown_until_a_sum_with_it():
    one, others = suspicion(), tuple(key.public for key in KEYS[1:])
    one.left_out_by(())
    assert one.out_by == ()
    one.left_out_by(others)
    one.left_out_by((OTHER,))
    assert works(one, OTHER).out_by == others
    assert works(one, ME, OTHER).out_by == ()


# -- the bound -----------------------------------------------------------------------------------------------


def bound(sums: int, leave_out: int) -> float:
    """Returns the most strikes that one member can get in so many sums of one node."""
    return LEFT_OUT_FROM + math.log2(1 + sums / leave_out) + sums / FORGIVEN_AFTER


def spoiled(one: Suspicion, sums: int, withholds) -> int:
    """Returns how many sums fail. `withholds(number)`: whether it does, in a sum that it is in."""
    count = 0
    for number in range(sums):
        if SILENT in one.left_out:
            works(one, ME, OTHER)
        elif withholds(number):
            fails(one, SILENT)
            count += 1
        else:
            works(one, ME, OTHER, SILENT)
    return count


def patient(one: Suspicion):
    """Returns a member that withholds once as soon as that does not make its time longer."""
    return lambda _: one.strikes(SILENT) < LEFT_OUT_FROM


STRATEGIES = {
    "always": lambda one, _rng: lambda _: True,
    "every other time": lambda one, _rng: lambda number: number % 2 == 0,
    "once it is forgiven": lambda one, _rng: patient(one),
    "now and then": lambda one, rng: lambda _: rng.random() < 0.1,
    "rarely": lambda one, rng: lambda _: rng.random() < 0.02,
}
DRAWN = ("now and then", "rarely")


@pytest.mark.parametrize("sums", [10, 200, 2000])
@pytest.mark.parametrize("leave_out", [1, 4, 80])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_whatever_a_member_does_it_spoils_few_sums(strategy, leave_out, sums):
    for seed in range(20 if strategy in DRAWN else 1):
        one = suspicion(leave_out)
        count = spoiled(one, sums, STRATEGIES[strategy](one, random.Random(seed)))
        assert count <= bound(sums, leave_out), (strategy, seed)


def test_the_bound_is_not_far_off():
    assert spoiled(suspicion(4), 2000, lambda _: True) >= bound(2000, 4) - 2000 / FORGIVEN_AFTER - 1


def test_one_member_spoils_hardly_more_steps_than_a_budget_has_in_reserve():
    """One step in 25 and two more are in reserve. A round has 20 steps here; the first time is 4 rounds."""
    assert all(bound(steps, 80) <= 2 + 2 + steps / 25 for steps in range(40, 2000))


def test_who_is_in_two_groups_at_once_gets_a_strike_if_anybody_does():
    one, nobody = suspicion(), suspicion(leave_out=0)
    one.in_two([SILENT], NOW)
    assert one.news() == [Strike(SILENT, Fault.IN_TWO, None, BASE, is_first=True)]
    assert (one.left_out, lengths(one)) == ((SILENT,), 1)
    one.in_two([SILENT], NOW)
    assert lengths(one) == BASE
    nobody.in_two([SILENT], NOW)
    assert nobody.left_out == ()


def test_who_is_in_two_groups_at_once_while_it_is_left_out_gets_no_further_strike():
    one = fails(fails(suspicion(), SILENT), SILENT)
    works(one, OTHER)
    one.in_two([SILENT], NOW)
    assert one.strikes(SILENT) == LEFT_OUT_FROM
    assert lengths(one) == BASE, "its time begins again"
