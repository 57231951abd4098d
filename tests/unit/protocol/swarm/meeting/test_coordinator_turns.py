"""Whose turn it is to coordinate, and who decides that a turn is over."""

import random

import pytest

from protocol.quorum.lineage import Line
from protocol.swarm.meeting.coordinator_turns import MISSED, Turns
from protocol.swarm.meeting.membership import LOST_AFTER_S, Members
from protocol.wire.messages import Group, Link, Stalled
from tests.parts import COUNTER, NOW, announce, base, group, members, settings, state

KEYS = members(5)
BASE = base(3, 1)
OTHER = base(4, 2)


def turns(me: int = 1, made_by: int | None = None, others=(0, 1, 2, 3, 4)) -> Turns:
    """The turns of node `me`; `made_by`: who coordinated the session of its base."""
    where = state(held=BASE)
    known = Members(where)
    if made_by is not None:
        made = group([KEYS[made_by], *(key for key in KEYS if key != KEYS[made_by])])
        where.line = Line(3, None, (Link(made, (), ()),))
    for number in others:
        if number != me:
            known.learn(announce(KEYS[number], base=BASE), NOW, live=True)
    return Turns(settings(KEYS[me]), where, known)


def hear(mine: Turns, number: int, turns: int, on=BASE) -> Stalled | None:
    return mine.heard(Stalled(on.digest, turns), KEYS[number].public)


@pytest.mark.parametrize("me", range(5))
@pytest.mark.parametrize("made_by", [None, 0, 3, 4])
def test_who_made_the_base_goes_on_and_the_next_key_follows(me, made_by):
    mine, first = turns(me, made_by), made_by or 0
    for turn in range(7):
        assert mine.coordinator == KEYS[(first + turn) % 5].public
        for number in range(3):
            mine._said[KEYS[number].public] = Stalled(BASE.digest, turn + 1)


def test_the_next_key_takes_the_place_of_one_that_is_gone():
    assert turns(1, made_by=3, others=(0, 1, 2, 4)).coordinator == KEYS[4].public
    assert turns(1, made_by=4, others=(0, 1, 2, 3)).coordinator == KEYS[0].public


@pytest.mark.parametrize(("others", "needed"), [((0, 1, 2, 3, 4), 3), ((0, 1, 2, 3), 3), ((0, 1, 2), 2)])
def test_a_turn_is_over_when_more_than_half_have_said_so(others, needed):
    mine = turns(1, others=others)
    said = mine.stall()
    assert said == Stalled(BASE.digest, 1)
    assert mine.has_stalled
    assert mine.stall() is None, "once for each turn"
    for count, number in enumerate([number for number in others if number != 1], 2):
        assert mine.number == (1 if count > needed else 0)
        hear(mine, number, 1)
    assert mine.number == 1
    assert not mine.has_stalled
    assert mine.stall() == Stalled(BASE.digest, 2)


@pytest.mark.parametrize("seed", range(50))
def test_fewer_than_half_end_no_turn_whatever_they_say(seed):
    rng, mine = random.Random(seed), turns()
    hear(mine, 2, 3)
    mine.stall()
    for _ in range(20):
        hear(mine, rng.choice((3, 4)), rng.choice((0, 1, 5, 2**31 - 1)))
        assert mine.number <= 3, "no more than an honest one says"
    assert turns().number == 0


def test_what_was_said_on_another_base_counts_there_alone():
    mine = turns()
    for number in (2, 3, 4):
        hear(mine, number, 2, on=OTHER)
    assert mine.number == 0
    mine._state.base = OTHER
    assert mine.number == 2, "they had the next base before this node"


def test_who_has_waited_in_a_later_turn_says_so_to_one_that_does_not_know():
    mine = turns()
    mine.stall()
    assert hear(mine, 2, 0) == mine.mine == Stalled(BASE.digest, 1)
    assert hear(mine, 2, 1) is None
    assert hear(mine, 2, 0, on=OTHER) is None


def test_only_candidates_are_heard_and_others_are_forgotten():
    mine = turns(others=(0, 1, 2))
    for number in (3, 4):
        hear(mine, number, 1)
    assert set(mine._said) == set()
    hear(mine, 2, 1)
    mine._members.suspect(KEYS[2].public)
    mine.keep()
    assert set(mine._said) == set()


def after_groups(mine: Turns, *groups: Group, waited=False, says: int | None = None, apart=()) -> bool:
    """Whether the coordinator of these groups, one after the other, has had its turn.

    `waited`: this node did, at that coordinator. `says`: the node that says of each base that it waited.
    """
    for number, each in enumerate(groups):
        held = base(3, 50 + number)
        if says is not None:
            hear(mine, says, 1, mine._state.base)
        mine._state.previous, mine._state.base = mine._state.base, held
        mine._state.line = Line(3, None, (Link(each, (), ()),))
        mine.adopted(waited, apart)
    return mine.is_unfair


FOUR = group((KEYS[0], *KEYS[2:5]))
"""This node is not in it."""
OTHERS = group(KEYS[:4])
"""The fifth is not in it."""


def test_who_makes_groups_without_this_node_that_waits_has_had_its_turn():
    assert not after_groups(turns(), *[FOUR] * (MISSED - 1), waited=True)
    assert after_groups(turns(), *[FOUR] * MISSED, waited=True)
    assert not after_groups(turns(), *[FOUR] * MISSED), "it was not READY"
    assert not after_groups(turns(), *[FOUR] * (MISSED - 1), OTHERS, FOUR, waited=True), "now it was in one"


def test_so_it_has_if_another_one_says_so_each_time():
    assert not after_groups(turns(), *[OTHERS] * (MISSED - 1), says=4)
    assert after_groups(turns(), *[OTHERS] * MISSED, says=4)
    assert not after_groups(turns(), *[OTHERS] * MISSED), "it does not say so"
    assert not after_groups(turns(), *[OTHERS] * MISSED, says=3), "it was in them"
    assert not after_groups(turns(), *[OTHERS] * MISSED, says=4, apart=(KEYS[4].public,)), "by this one, too"


def test_only_groups_of_one_coordinator_in_its_turn_count():
    others = group((KEYS[2], *KEYS[3:5], KEYS[0]))
    assert not after_groups(turns(), *[FOUR] * MISSED, others, waited=True)
    assert not after_groups(turns(), *[FOUR] * (MISSED - 1), others, FOUR, waited=True)
    steps = [FOUR.later(base(3 + step, 1)) for step in range(1, MISSED)]
    assert not after_groups(turns(), FOUR, *steps, waited=True), "it was one group"
    mine = turns()
    assert after_groups(mine, *[FOUR] * MISSED, waited=True)
    for number in (0, 2, 3):
        hear(mine, number, 1, mine._state.base)
    assert not mine.is_unfair, "another one's turn"


def test_a_base_without_a_line_says_nothing_of_groups():
    mine = turns()
    mine.adopted(True, ())
    assert not mine.is_unfair


def test_on_a_first_base_nobody_has_said_anything():
    mine = turns()
    mine._state.line = Line(3, None, (Link(OTHERS, (), ()),))
    for _ in range(MISSED):
        mine.adopted(False, ())
    assert not mine.is_unfair


def test_the_word_of_one_that_is_gone_counts_no_more():
    mine = turns(1)
    mine.stall()
    hear(mine, 0, 1)
    hear(mine, 2, 1)
    assert mine.number == 1
    mine._members.suspect(KEYS[2].public)
    assert mine.number == 0, "two of four"


def without(mine: Turns, number: int) -> Turns:
    """This node cannot reach one of the others."""
    mine._members.suspect(KEYS[number].public)
    return mine


def test_who_is_gone_and_shows_itself_to_nobody_counts_no_more():
    """It made the base, and ended without a word: else those that cannot reach it counted another turn."""
    mine = without(turns(1, made_by=3), 4)
    mine._members.expire(NOW + LOST_AFTER_S - 1)
    assert KEYS[4].public in mine._counted
    mine._members.expire(NOW + LOST_AFTER_S)
    assert KEYS[4].public not in mine._counted
    mine._members.learn(announce(KEYS[4], counter=COUNTER + 1), NOW + 70, live=False)
    assert KEYS[4].public in mine._counted, "others hear it"
    mine._members.expire(NOW + 120)
    assert KEYS[4].public in mine._counted


def test_a_cut_link_makes_nobody_count_another_turn_than_the_others():
    """It is another's turn only where this node cannot reach the one whose turn it is."""
    whole, cut = turns(1, made_by=3), without(turns(1, made_by=3), 4)
    for mine in (whole, cut):
        hear(mine, 0, 1)
        hear(mine, 2, 1)
        assert mine.number == 0, "two of five, whoever can be reached"
        mine.stall()
    assert [mine.number for mine in (whole, cut)] == [1, 1]
    assert whole.coordinator == KEYS[4].public
    assert cut.coordinator == KEYS[0].public
    for mine in (whole, cut):
        for number in (0, 2, 3):
            hear(mine, number, 2)
    assert whole.coordinator == cut.coordinator == KEYS[0].public


def test_who_made_the_base_and_has_left_or_follows_counts_no_more():
    mine = turns(1, made_by=3, others=(0, 1, 2))
    mine._members.learn(announce(KEYS[3], base=BASE, leaving=True), NOW, live=True)
    mine._members.learn(announce(KEYS[4], base=BASE, following=True), NOW, live=True)
    assert mine.coordinator == KEYS[0].public
    mine.stall()
    hear(mine, 0, 1)
    assert mine.number == 1, "two of three"
