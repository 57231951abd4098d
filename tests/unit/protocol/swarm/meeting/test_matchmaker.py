"""When a GROUP is sent, to whom, and which READYs never enter one."""

import math
import random
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import replace

import pytest

from protocol.actions import Named
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import Electorate, of_keys, of_names
from protocol.swarm.meeting.matchmaker import MAX_ANNOUNCED, MAX_ELECTORATES, MAX_ROOMS, Matchmaker
from protocol.swarm.meeting.room import APART_S, ASIDE, LINGER_CAP_S, WAITING_SHARE
from protocol.wire import signing
from protocol.wire.ids import NO_ELECTORS, RESIGNED
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Group, LeftOut
from tests.parts import COUNTER, NOW, announce, base, endpoint, members, ready, resigned, stranger

KEYS = members(7)
COORDINATOR = KEYS[0].public
SWARM = announce(KEYS[0]).swarm


def matchmaker(min_participants: int = 3) -> Matchmaker:
    return Matchmaker(KEYS[0], min_participants)


def holding(count: int, announced: int = 0, **changes) -> Matchmaker:
    """Holds READYs of `count` members, one per second from NOW on; `announced` in all."""
    held = matchmaker()
    for key in KEYS[: max(count, announced)]:
        held.announce(announce(key, **changes), NOW)
    for number, key in enumerate(KEYS[:count]):
        held.ready(ready(key, COORDINATOR, **changes), NOW + number)
    return held


def grouped(held: Matchmaker, now: float, known: int | None = None) -> list[tuple[bytes, ...]]:
    """Returns the members of the groups that close now."""
    sent = [message for action in held.close_groups(now, known) for message in action.messages]
    groups = [message for message in sent if isinstance(message, Group)]
    for group in groups:
        signing.verify(group, COORDINATOR)
    return sorted({tuple(ready.key for ready in group.readys) for group in groups})


def public(*places: int) -> tuple[bytes, ...]:
    return tuple(KEYS[place].public for place in places)


def test_a_group_is_sent_to_its_members_at_once_when_all_announced_are_ready():
    held = holding(3)
    actions = held.close_groups(NOW + 2)

    assert [action.to for action in actions] == list(public(0, 1, 2))
    (group,) = {message for action in actions for message in action.messages}
    assert isinstance(group, Group)
    assert (tuple(one.key for one in group.readys), group.attempt) == (public(0, 1, 2), 0)
    assert grouped(held, NOW + 3) == [], "once"


def test_each_group_of_a_room_has_another_attempt():
    held = holding(3)
    held.close_groups(NOW + 2)
    for key in KEYS[:3]:
        held.ready(ready(key, COORDINATOR, nonce=1, counter=COUNTER + 1), NOW + 3)
    (group,) = {message for action in held.close_groups(NOW + 3) for message in action.messages}

    assert group.attempt == 1


def test_a_group_waits_for_the_announced_until_linger_after_the_third_ready():
    held = holding(4, announced=5)

    assert grouped(held, NOW + 3) == []
    assert held.deadline == NOW + 2 + LINGER_CAP_S
    assert grouped(held, NOW + 2 + LINGER_CAP_S) == [public(0, 1, 2, 3)]


def test_who_misses_one_group_after_the_other_is_waited_for_less_and_less():
    held, late, waited = holding(4), KEYS[3].public, list[int]()
    for number in range(1, 70):
        room = held.room(SWARM)
        if late in room.waits_for(public(0, 1, 2)):
            waited.append(number - 1)
        room.closed(public(0, 1, 2))
    assert waited == [0, 1, 2, 3, 4, 8, 16, 32, 64]
    room.closed(public(0, 1, 2, 3))
    assert room.missed[late] == 69 // 2, "one group that it is in takes half of them back"
    held.announce(announce(KEYS[3], counter=COUNTER + 1, instance=b"2" * 16), NOW)
    assert late in room.waits_for(public(0, 1, 2)), "who starts anew begins anew"
    held.unreachable(late)
    room.closed(public(0, 1, 2))
    assert room.missed[late] == 0, "who is gone misses nothing"


def with_a_slow_one(held: Matchmaker, lasts_s: float, usual_s: float, slow_s: float) -> tuple[int, int]:
    """Returns how many groups three members and a slow fourth make, and in how many the fourth is.

    Everybody is READY so long after the group that it was in; the fourth, if it was not, stays READY.
    """
    now, counter, sizes = NOW, COUNTER, list[int]()
    due = dict.fromkeys(KEYS[:3], NOW + usual_s) | {KEYS[3]: NOW + slow_s}
    while now < NOW + lasts_s:
        closes = math.inf if held.deadline is None else held.deadline
        now = min(closes, *due.values())
        for key in [key for key, at in due.items() if at <= now]:
            counter += 1
            held.ready(ready(key, COORDINATOR, counter=counter), now)
            due[key] = math.inf
        for group in grouped(held, now):
            sizes.append(len(group))
            inside = [key for key in KEYS[:4] if key.public in group]
            due |= {key: now + (slow_s if key == KEYS[3] else usual_s) for key in inside}
    return len(sizes), sizes.count(4)


@pytest.mark.parametrize(("usual_s", "times"), [(0.25, 3), (1.0, 20), (4.0, 5), (4.0, 100)])
def test_nobodys_pace_becomes_that_of_all(usual_s, times):
    lasts_s, slow_s = 400.0 * min(usual_s, 1.0), times * usual_s
    groups, with_it = with_a_slow_one(holding(0, announced=4), lasts_s, usual_s, slow_s)
    waited_s = lasts_s - groups * usual_s
    assert waited_s <= LINGER_CAP_S + WAITING_SHARE * lasts_s + slow_s + 1
    assert groups >= 0.8 * lasts_s / usual_s - LINGER_CAP_S / usual_s
    assert with_it >= lasts_s // (slow_s + 1.2 * usual_s + 1) - 1, "all that it makes is in a group"


def test_who_comes_a_little_later_each_time_is_waited_for_each_time():
    groups, with_it = with_a_slow_one(holding(0, announced=4), 400.0, 4.0, 4.3)
    assert with_it == groups


def test_one_wait_takes_as_much_credit_as_it_lasts_and_time_gives_some_back():
    room, late = holding(3, announced=4).room(SWARM), KEYS[3].public
    assert room.patience_s({late}) == LINGER_CAP_S
    room.charge({late: 2.0}, NOW)
    assert room.patience_s({late}) == LINGER_CAP_S - 2
    room.charge({late: 2.0}, NOW + 10)
    assert room.patience_s({late}) == LINGER_CAP_S - 4 + 10 * WAITING_SHARE
    room.charge({late: 9.0}, NOW + 20)
    assert room.patience_s({late}) == 0, "a wait for another is no debt of its own"
    room.charge({}, NOW + 1000)
    assert room.patience_s({late}) == LINGER_CAP_S, "and nobody saves up more than at the start"
    assert room.patience_s(()) == 0


def test_who_starts_anew_has_the_credit_of_a_start():
    held, late = holding(3, announced=4), KEYS[3].public
    held.room(SWARM).charge({late: LINGER_CAP_S}, NOW)
    held.announce(announce(KEYS[3], counter=COUNTER + 1, instance=b"2" * 16), NOW)
    assert held.room(SWARM).patience_s({late}) == LINGER_CAP_S


def test_a_wait_is_charged_to_who_came_last_and_who_did_not_come():
    held = holding(5, announced=6)
    for number in range(3):
        held.ready(ready(KEYS[number], COORDINATOR, counter=COUNTER + 1), NOW + number)
    for number, at in ((3, 2.5), (4, 3.0)):
        held.ready(ready(KEYS[number], COORDINATOR, counter=COUNTER + 1), NOW + at)
    assert grouped(held, NOW + 7, known=5) == [public(0, 1, 2, 3, 4)]
    left = {place: held.room(SWARM).patience_s({KEYS[place].public}) for place in range(6)}
    assert left == {0: 5.0, 1: 5.0, 2: 5.0, 3: 4.5, 4: 4.5, 5: 1.0}


def test_linger_adapts_to_how_far_apart_readys_come():
    held = holding(3)
    for number in range(4):
        for key in KEYS[:3]:
            held.ready(ready(key, COORDINATOR, counter=COUNTER + number + 1), NOW + number)
        held.close_groups(NOW + number)

    assert held.room(SWARM).pace.allowed_s < LINGER_CAP_S


def later(held: Matchmaker, place: int, **changes) -> None:
    held.announce(announce(KEYS[place], counter=COUNTER + 1, **changes), NOW)


GONE = {
    "it cannot be reached": lambda held, place: held.unreachable(KEYS[place].public),
    "it follows": lambda held, place: later(held, place, following=True),
    "it has left": lambda held, place: later(held, place, leaving=True),
}


@pytest.mark.parametrize("goes", GONE.values(), ids=GONE)
def test_who_is_gone_is_not_waited_for_and_its_ready_does_not_count(goes):
    held, few, more = holding(3, announced=4), holding(3), holding(4)
    held.unreachable(stranger().public)
    for one, place in ((held, 3), (few, 2), (more, 3)):
        goes(one, place)

    assert grouped(held, NOW + 2) == [public(0, 1, 2)]
    assert grouped(few, NOW + 20) == []
    assert grouped(more, NOW + 3) == [public(0, 1, 2)]


def test_who_can_not_be_reached_is_waited_for_once_it_is_heard_again():
    held = holding(3, announced=4)
    held.unreachable(KEYS[3].public)
    later(held, 3)

    assert grouped(held, NOW + 2) == []


def test_a_follower_is_not_counted_among_those_that_a_group_exceeds_half_of():
    held = holding(3, announced=6)
    held.announce(announce(KEYS[5], counter=COUNTER + 1, following=True), NOW)

    assert grouped(held, NOW + 2) == []
    assert grouped(held, NOW + 2 + LINGER_CAP_S) == [public(0, 1, 2)]


def test_a_follower_is_announced_to_others_all_the_same():
    held = matchmaker()
    follower = announce(KEYS[1], base=base(1, 1), following=True)

    assert held.announce(follower, NOW)
    assert held.of_task("digits") == held.outranking(ready(KEYS[2], COORDINATOR)) == (follower,)


def test_the_ready_of_a_follower_is_refused():
    held = holding(2)
    with pytest.raises(RemoteProtocolError, match="follows: it offers nothing"):
        held.ready(ready(KEYS[2], COORDINATOR, following=True), NOW)
    held.announce(announce(KEYS[2], counter=COUNTER + 1, following=True), NOW)
    with pytest.raises(RemoteProtocolError, match="follows: it offers nothing"):
        held.ready(ready(KEYS[2], COORDINATOR), NOW)

    assert grouped(held, NOW + 20) == []


def test_the_larger_of_the_coordinators_and_the_tasks_floor_counts():
    held = matchmaker(min_participants=4)
    for key in KEYS[:3]:
        held.ready(ready(key, COORDINATOR), NOW)
    assert grouped(held, NOW + 20) == []
    held.ready(ready(KEYS[3], COORDINATOR), NOW)
    assert grouped(held, NOW) == [public(0, 1, 2, 3)]

    assert grouped(holding(4, min_participants=5), NOW + 20) == []
    assert grouped(holding(5, min_participants=5), NOW + 20) == [public(0, 1, 2, 3, 4)]


def test_a_group_without_a_quorum_exceeds_half_of_the_announced():
    held = holding(3, announced=6)
    assert grouped(held, NOW + 20) == []

    held.ready(ready(KEYS[3], COORDINATOR), NOW + 20)
    assert grouped(held, NOW + 26) == [public(0, 1, 2, 3)]


def test_readys_of_two_bases_make_a_group_of_the_larger_part():
    held = holding(3, announced=5)
    for key in KEYS[3:5]:
        held.ready(ready(key, COORDINATOR, base=base(1, 1)), NOW + 3)

    assert grouped(held, NOW + 20) == [public(0, 1, 2)]


def test_of_two_equal_parts_the_one_with_the_higher_base_makes_the_group():
    held = holding(3, announced=6)
    for key in KEYS[3:6]:
        held.ready(ready(key, COORDINATOR, base=base(1, 1)), NOW + 3)

    assert grouped(held, NOW + 20, known=3) == [public(3, 4, 5)]


def test_a_member_behind_is_told_of_higher_bases():
    held = holding(2)
    higher = announce(KEYS[2], base=base(1, 1))
    held.announce(higher, NOW)

    assert held.outranking(ready(KEYS[0], COORDINATOR)) == (higher,)
    assert held.outranking(ready(KEYS[2], COORDINATOR, base=base(1, 1))) == ()


def test_two_swarms_never_share_a_group():
    held = holding(2)
    for key in KEYS[2:4]:
        held.ready(ready(key, COORDINATOR, parameters=bytes(32)), NOW)

    assert grouped(held, NOW + 20) == []
    assert {one.key for one in held.of_task("digits")} == set(public(0, 1, 2, 3))
    assert held.of_task("other") == ()


def test_an_announcement_and_its_ready_run_out():
    held = holding(3, announced=4)

    assert held.expire(NOW + 29) == ()
    assert set(held.expire(NOW + 30)) == set(public(0, 3))
    assert set(held.expire(NOW + 32)) == set(public(1, 2))
    assert grouped(held, NOW + 33) == []
    assert held.deadline is None
    assert held._rooms == {}


def test_a_matchmaker_wakes_when_the_next_announcement_runs_out():
    held = holding(2)
    held.close_groups(NOW)

    assert held.deadline == NOW + 30


def test_an_older_announcement_says_nothing():
    held = matchmaker()
    newer = announce(KEYS[1], counter=COUNTER + 1)

    assert held.announce(newer, NOW)
    assert not held.announce(announce(KEYS[1]), NOW)
    assert held.of_task("digits") == (newer,)


def test_a_node_that_started_anew_takes_its_old_ready_with_it():
    held = holding(3)
    held.announce(announce(KEYS[2], instance=b"2" * 16, counter=COUNTER + 1), NOW)

    assert grouped(held, NOW + 20) == []


def test_a_withdrawn_ready_does_not_count_and_does_not_come_back():
    held = holding(3)
    held.withdraw(KEYS[2].public, (1, COUNTER))
    held.withdraw(stranger().public, (1, COUNTER))
    with pytest.raises(RemoteProtocolError, match="used already"):
        held.ready(ready(KEYS[2], COORDINATOR), NOW + 3)

    assert grouped(held, NOW + 20) == []


def test_a_ready_is_good_for_one_group():
    held = holding(3)
    held.close_groups(NOW + 2)
    with pytest.raises(RemoteProtocolError, match="used already"):
        held.ready(ready(KEYS[2], COORDINATOR), NOW + 3)

    held.ready(ready(KEYS[2], COORDINATOR, counter=COUNTER + 1), NOW + 3)


def test_an_older_ready_does_not_replace_the_one_that_is_held():
    held = matchmaker()
    held.ready(ready(KEYS[1], COORDINATOR, nonce=2, counter=COUNTER + 1), NOW)

    with pytest.raises(RemoteProtocolError, match="earlier than the one"):
        held.ready(ready(KEYS[1], COORDINATOR, nonce=1), NOW)


def test_readys_that_can_not_be_used_are_refused():
    held = holding(1)
    good = ready(KEYS[1], COORDINATOR)

    with pytest.raises(RemoteProtocolError, match="for another coordinator"):
        held.ready(replace(good, coordinator=KEYS[1].public), NOW)
    with pytest.raises(RemoteProtocolError, match="unusable ephemeral key"):
        held.ready(resigned(good, KEYS[1], ephemeral=bytes(32)), NOW)
    with pytest.raises(RemoteProtocolError, match="has left"):
        held.ready(ready(KEYS[1], COORDINATOR, leaving=True), NOW)


def test_who_is_heard_does_not_run_out_whatever_its_clock_shows():
    held = holding(3)
    for key in KEYS[:3]:
        held.announce(announce(key, counter=COUNTER + 1), NOW + 25)

    assert held.expire(NOW + 54) == ()
    assert set(held.expire(NOW + 55)) == set(public(0, 1, 2))


def test_the_number_of_swarms_is_limited():
    held = matchmaker()
    for number in range(MAX_ROOMS):
        held.room(("task", number.to_bytes(32, "big")))

    with pytest.raises(RemoteProtocolError, match="more than 256 swarms"):
        held.announce(announce(KEYS[0]), NOW)


def test_the_number_of_peers_in_a_swarm_is_limited():
    held = matchmaker()
    held.announce(announce(KEYS[0]), NOW)
    room = held.room(SWARM)
    room.announced.update(
        {number.to_bytes(32, "big"): announce(KEYS[0]) for number in range(MAX_ANNOUNCED - 1)}
    )

    with pytest.raises(RemoteProtocolError, match="more than 1024 peers in a swarm"):
        held.announce(announce(KEYS[1]), NOW)
    assert held.announce(announce(KEYS[0], counter=COUNTER + 1), NOW)


# -- electors ------------------------------------------------------------------------------------------

FIVE = of_names(endpoint(key) for key in KEYS[:5])
FIRST = next(place for place, key in enumerate(KEYS) if endpoint(key).encode() == FIVE.members[0])
OPEN = b"s" * 32


def counting(*places: int, electorate: Electorate = FIVE, knows: bool = True, **changes) -> Matchmaker:
    """Holds READYs of these, one per second, none willing to go without a quorum; all seven are announced."""
    held = matchmaker()
    for key in KEYS:
        held.announce(announce(key), NOW)
    if knows:
        held.learn(SWARM, electorate)
    told = {"electors": electorate.digest, "weak": False, **changes}
    for number, place in enumerate(places):
        held.ready(ready(KEYS[place], COORDINATOR, **told), NOW + number)
    return held


def closed(held: Matchmaker, now: float = NOW + 20, known: int | None = None) -> list[Group]:
    """Returns the groups that close now, each once."""
    sent = [
        message for action in held.close_groups(now, known) for message in getattr(action, "messages", ())
    ]
    return list(dict.fromkeys(sent))


def test_a_quorum_of_electors_is_a_group_however_many_are_known():
    assert grouped(counting(0, 1, 2), NOW + 20, known=64) == [public(0, 1, 2)]
    assert grouped(counting(0, 1, 5, 6), NOW + 20, known=3) == []


def test_a_coordinator_that_was_not_told_of_the_electors_closes_no_group_of_them():
    assert grouped(counting(0, 1, 2, knows=False), NOW + 20) == []


def test_of_those_that_came_the_linger_begins_with_the_quorum():
    """Two electors and two others come first: the fifth makes the quorum."""
    held = counting(5, 6, 0, 1, 2)

    assert grouped(held, NOW + 4 + LINGER_CAP_S - 0.1) == []
    assert held.deadline == NOW + 4 + LINGER_CAP_S
    assert grouped(held, NOW + 4 + LINGER_CAP_S) == [public(0, 1, 2, 5, 6)]


def test_who_would_not_join_a_weak_group_yet_does_not_hold_up_those_that_would():
    elsewhere = of_names(["elsewhere:1"])
    held, told = counting(electorate=elsewhere), {"electors": elsewhere.digest}
    for number, place in enumerate((0, 1, 5, 6)):
        held.ready(ready(KEYS[place], COORDINATOR, weak=True, **told), NOW + number)
    held.ready(ready(KEYS[2], COORDINATOR, weak=False, **told), NOW + 4)

    assert grouped(held, NOW + 20, known=7) == [public(0, 1, 5, 6)]


@pytest.mark.parametrize("bound", [(OPEN,), (RESIGNED,)])
def test_a_bound_or_resigned_elector_adds_nothing_to_a_quorum(bound):
    held = counting(0, 1, 5)
    held.ready(ready(KEYS[2], COORDINATOR, electors=FIVE.digest, weak=False, open=bound), NOW + 3)

    assert grouped(held, NOW + 20) == []


def excusing(*resigned_: int, waiting: tuple[int, ...]) -> list[Group]:
    held = counting(*waiting)
    for place in resigned_:
        said = announce(KEYS[place], counter=COUNTER + 1, following=True, open=(RESIGNED,))
        held.announce(said, NOW)
    return closed(held)


def test_who_resigned_is_excused_where_that_makes_the_quorum():
    """Two of five electors: once three have resigned, they are all that are left."""
    others = tuple({0, 1, 2, 3, 4} - {FIRST})
    waiting, out = (FIRST, others[0], 5), others[1:]
    (group,) = excusing(*out, waiting=waiting)

    assert [one.key for one in group.excused] == sorted(KEYS[place].public for place in out)
    assert excusing(waiting=waiting) == []


def test_nobody_is_excused_where_there_is_a_quorum_anyway_or_none_even_so():
    (group,) = excusing(3, 4, waiting=(0, 1, 2))
    assert group.excused == ()

    others = tuple({0, 1, 2, 3, 4} - {FIRST})
    assert excusing(others[3], waiting=(others[0], 5, 6)) == []


def test_who_resigned_on_another_anchor_or_is_in_doubt_is_not_excused():
    others = tuple({0, 1, 2, 3, 4} - {FIRST})
    for said in ({"open": (RESIGNED, OPEN)}, {"open": (RESIGNED,), "base": base(1, anchor=1)}, {"open": ()}):
        held = counting(FIRST, others[0], 5)
        for place in others[1:]:
            held.announce(announce(KEYS[place], counter=COUNTER + 1, following=True, **said), NOW)

        assert closed(held) == []


def test_where_all_are_willing_the_group_is_more_than_half_of_the_known():
    held = counting(1, 5, 6, weak=True)

    assert grouped(held, NOW + 20, known=6) == []
    assert grouped(held, NOW + 20, known=5) == [public(1, 5, 6)]
    assert grouped(counting(1, 5, 6), NOW + 20, known=3) == []


def test_a_quorum_on_a_lower_base_goes_before_more_nodes_without_one():
    held = counting(0, 1, 2)
    for place in (3, 4, 5, 6):
        other = ready(KEYS[place], COORDINATOR, electors=bytes(32), base=base(9, 9), counter=COUNTER + 1)
        held.ready(other, NOW + 3)

    assert grouped(held, NOW + 20, known=64) == [public(0, 1, 2)]


def test_those_that_count_alike_go_without_one_that_counts_otherwise():
    held = counting(0, 1, 2)
    held.ready(ready(KEYS[3], COORDINATOR, electors=bytes(32), weak=False), NOW + 3)

    assert grouped(held, NOW + 20, known=64) == [public(0, 1, 2)]


def test_of_too_many_the_electors_come_in():
    many = members(MAX_MEMBERS + 3)
    electors = of_keys(key.public for key in many[-3:])
    held = Matchmaker(many[0], 3)
    held.learn(SWARM, electors)
    for number, key in enumerate(many):
        held.ready(ready(key, many[0].public, electors=electors.digest), NOW + number / 100)
    (group,) = closed(held, NOW + 20)

    assert len(group.readys) == MAX_MEMBERS
    assert {one.key for one in group.readys} >= set(electors.members)


def test_the_electors_that_were_told_of_last_are_known():
    held = matchmaker()
    for number in range(MAX_ELECTORATES):
        held.learn(SWARM, Electorate(least=number + 3))
    held.learn(SWARM, Electorate(least=3))
    held.learn(SWARM, FIVE)

    assert {each.least for each in held.room(SWARM).electorates.values()} == {
        0,
        3,
        *range(5, 3 + MAX_ELECTORATES),
    }


def test_a_peer_tells_of_electors_in_its_own_swarms_alone():
    held = matchmaker()
    held.announce(announce(KEYS[1]), NOW)
    held.announce(announce(KEYS[2], task="other"), NOW)
    held.learn_from(KEYS[1].public, FIVE)
    held.learn_from(KEYS[3].public, Electorate(least=9))

    assert list(held.room(SWARM).electorates.values()) == [FIVE]
    assert not held.room(announce(KEYS[2], task="other").swarm).electorates


@pytest.mark.parametrize(("weak", "needed"), [(False, 3), (True, 4)])
def test_what_a_group_needs_is_a_quorum_or_more_than_half(weak, needed):
    assert counting(0, 1, weak=weak).waiting[0].needed == needed
    ten = Electorate(least=6)
    assert counting(0, 1, electorate=ten).waiting[0].needed == 6


# -- a tracker's ---------------------------------------------------------------------------------------


def tracking(*places: int, named=None, **changes) -> Matchmaker:
    """Makes a tracker with READYs of these, who leave the choice of electors to the tracker."""
    held = Matchmaker(KEYS[0], 3, named or {})
    for number, place in enumerate(places):
        told = {"electors": NO_ELECTORS, "weak": False, **changes}
        held.ready(ready(KEYS[place], COORDINATOR, **told), NOW + number)
    return held


def named_by(held: Matchmaker, now: float = NOW + 20) -> tuple[list[Named], list[Group]]:
    actions = held.close_groups(now)
    sent = [message for action in actions for message in getattr(action, "messages", ())]
    return [action for action in actions if isinstance(action, Named)], list(dict.fromkeys(sent))


def test_a_tracker_names_the_members_of_its_first_group_before_it_says_so():
    held = tracking(0, 1, 2)
    actions = held.close_groups(NOW + 20)
    assert actions[0] == Named(*SWARM, public(0, 1, 2))
    assert {action.messages[0].electors for action in actions[1:]} == {public(0, 1, 2)}


def test_it_names_once_and_later_groups_need_a_quorum_of_those():
    held = tracking(0, 1, 2)
    held.close_groups(NOW + 20)
    for number, place in enumerate((1, 2, 3)):
        said = ready(KEYS[place], COORDINATOR, electors=NO_ELECTORS, weak=False, counter=COUNTER + 1)
        held.ready(said, NOW + 21 + number)
    found, (group,) = named_by(held, NOW + 40)

    assert (found, group.electors) == ([], public(0, 1, 2))
    for place in (2, 3, 4, 5):
        said = ready(KEYS[place], COORDINATOR, electors=NO_ELECTORS, weak=False, counter=COUNTER + 2)
        held.ready(said, NOW + 41)
    assert named_by(held, NOW + 60) == ([], [])


def test_a_tracker_counts_with_as_many_liars_as_the_nodes_say():
    held = tracking(1, 2, named={SWARM: public(0, 1, 2)})
    held.ready(ready(KEYS[3], COORDINATOR, electors=NO_ELECTORS, weak=False), NOW)
    held.learn(SWARM, Electorate(liars=1))
    assert named_by(held) == ([], []), "of three electors, all, if one may lie"
    held.ready(ready(KEYS[0], COORDINATOR, electors=NO_ELECTORS, weak=False), NOW + 21)

    assert len(named_by(held, NOW + 28)[1]) == 1


def test_whom_it_named_before_a_restart_stays_named():
    held = tracking(3, 4, 5, 6, named={SWARM: public(0, 1, 2)})
    assert named_by(held) == ([], [])
    held.ready(ready(KEYS[1], COORDINATOR, electors=NO_ELECTORS, weak=False), NOW + 21)
    assert named_by(held, NOW + 22) == ([], [])
    held.ready(ready(KEYS[2], COORDINATOR, electors=NO_ELECTORS, weak=False), NOW + 22)

    assert [group.electors for group in named_by(held, NOW + 27)[1]] == [public(0, 1, 2)]


def test_whom_it_named_stays_named_after_all_have_left_and_come_back():
    held = tracking(0, 1, 2)
    held.close_groups(NOW + 20)
    for place in (0, 1, 2):
        held.announce(announce(KEYS[place], leaving=True, counter=COUNTER + 1), NOW + 21)
    held.close_groups(NOW + 21)
    for place in (1, 2, 3):
        said = ready(KEYS[place], COORDINATOR, electors=NO_ELECTORS, weak=False, counter=COUNTER + 2)
        held.ready(said, NOW + 22)

    found, (group,) = named_by(held, NOW + 40)
    assert (found, group.electors) == ([], public(0, 1, 2))


def test_its_first_group_exceeds_half_of_those_that_are_announced():
    held = tracking(0, 1, 2)
    for key in KEYS[3:6]:
        held.announce(announce(key), NOW)
    assert named_by(held) == ([], [])
    held.ready(ready(KEYS[3], COORDINATOR, electors=NO_ELECTORS, weak=False), NOW + 20)

    assert named_by(held, NOW + 29)[0] == [Named(*SWARM, public(0, 1, 2, 3))]


def test_it_names_nobody_on_a_base_whose_electors_are_known():
    held = tracking(0, 1, 2, electors=FIVE.digest)
    held.learn_from(KEYS[0].public, FIVE)
    found, (group,) = named_by(held)

    assert (found, group.electors) == ([], ())


def test_who_does_not_leave_it_to_the_tracker_is_in_no_group_of_those_that_do():
    held = tracking(0, 1, 2, 3)
    held.ready(ready(KEYS[4], COORDINATOR, electors=FIVE.digest, weak=False), NOW + 4)
    held.ready(ready(KEYS[5], COORDINATOR, electors=FIVE.digest, weak=False), NOW + 5)
    found, (group,) = named_by(held)

    assert [one.electors for one in found] == [public(0, 1, 2, 3)]
    assert len(group.readys) == 4


def test_a_coordinator_that_is_no_tracker_names_nobody():
    held = counting(0, 1, 2, electors=NO_ELECTORS, weak=True)
    actions = held.close_groups(NOW + 20, 3)

    assert not [action for action in actions if isinstance(action, Named)]
    assert {action.messages[0].electors for action in actions} == {()}


# -- whom others would leave out -----------------------------------------------------------------------


def at_odds(*wishes: tuple[int, int], count=5, announced=0, least=3, **changes) -> Matchmaker:
    """Holds READYs of `count` members; each of `wishes` is (who, whom it would leave out)."""
    held = matchmaker(least)
    for key in KEYS[: max(count, announced)]:
        held.announce(announce(key), NOW)
    for number, key in enumerate(KEYS[:count]):
        whom = tuple(KEYS[other].public for who, other in wishes if who == number)
        one = ready(key, COORDINATOR, **changes)
        held.leave_out(SWARM, key.public, LeftOut(one.nonce, whom))
        held.ready(one, NOW + number)
    return held


@pytest.mark.parametrize(
    ("wishes", "waits"),
    [
        pytest.param([(0, 3), (1, 3)], 3, id="whom others would leave out"),
        pytest.param([(3, 1)], 1, id="of two that are at odds, the one that is named"),
        pytest.param([(3, 0), (3, 1), (3, 2), (3, 4)], 3, id="who names most others"),
        pytest.param([(3, 1), (1, 3), (1, 2)], 1, id="both directions are one pair"),
    ],
)
def test_who_waits_of_those_that_are_at_odds_and_its_ready_is_kept(wishes, waits):
    held = at_odds(*wishes)
    assert grouped(held, NOW + 4) == [
        tuple(key for key in public(0, 1, 2, 3, 4) if key != KEYS[waits].public)
    ]
    assert set(held.room(SWARM).readys) == {KEYS[waits].public}


def test_nobody_waits_where_the_rest_is_too_small_and_others_are_waited_for_longer():
    assert grouped(at_odds((0, 3), count=4, least=4), NOW + 3) == [public(0, 1, 2, 3)]

    held = at_odds((0, 3), count=4, least=4, announced=6)
    assert grouped(held, NOW + 3 + APART_S - 0.1) == []
    assert held.deadline == NOW + 3 + APART_S
    held.ready(ready(KEYS[4], COORDINATOR), NOW + 10)
    assert grouped(held, NOW + 10 + LINGER_CAP_S) == [public(0, 1, 2, 4)]


def test_nobody_waits_where_the_rest_is_no_quorum():
    electors = of_keys(public(0, 1, 5, 6, 3))
    held = at_odds((0, 3), (1, 3), electors=electors.digest, weak=True)
    held.learn(SWARM, electors)
    assert grouped(held, NOW + 4) == [public(0, 1, 2, 3, 4)], "weak groups could do without it"


def test_a_wish_counts_with_its_ready_alone_and_never_against_oneself():
    held = at_odds((1, 1))
    assert grouped(held, NOW + 4) == [public(0, 1, 2, 3, 4)]

    held = at_odds()
    held.leave_out(SWARM, KEYS[1].public, LeftOut(b"n" * 16, public(2)))
    assert grouped(held, NOW + 4) == [public(0, 1, 2, 3, 4)]


def test_a_wish_of_nobody_who_is_announced_is_forgotten():
    held = matchmaker()
    held.leave_out(SWARM, KEYS[1].public, LeftOut(bytes(16), public(2)))
    held.announce(announce(KEYS[0]), NOW)
    held.leave_out(SWARM, KEYS[1].public, LeftOut(bytes(16), public(2)))
    held.leave_out_for(KEYS[0].public, LeftOut(bytes(16), public(2)))
    assert set(held.room(SWARM).apart) == {KEYS[0].public}
    held.announce(announce(KEYS[0], leaving=True, counter=COUNTER + 5), NOW)
    assert not held.room(SWARM).apart


def drawn(draw: random.Random) -> Matchmaker:
    """Returns a coordinator that holds READYs of some electors and of others, some of whom have resigned."""
    electors = of_keys(
        public(*draw.sample(range(7), draw.choice([2, 4, 6, 6, 7]))), draw.choice([0, 0, 1, 2])
    )
    electors = draw.choice([electors, electors, Electorate(least=draw.randint(3, 5))])
    held, weak, anchor = matchmaker(), draw.choice([0.0, 0.5, 1.0]), draw.choice([0, 1])
    lost = public(*draw.sample(range(7), draw.choice([0, 3])))
    held.learn(SWARM, electors)
    for number, key in enumerate(draw.sample(KEYS, draw.randint(3, 7))):
        gone = draw.choice([(), lost, lost, lost])
        digest = draw.choice([*[electors.digest] * 9, NO_ELECTORS])
        said = {"weak": draw.random() < weak, "gone": gone, "base": base(anchor=anchor)}
        held.ready(ready(key, COORDINATOR, electors=digest, **said), NOW + number)
    for key in draw.sample(KEYS, draw.choice([0, 2])):
        held.announce(announce(key, open=(RESIGNED,), base=base(anchor=anchor), counter=COUNTER + 1), NOW)
    return held


def test_as_many_are_enough_as_are_the_first_that_may_be_a_group():
    draw, found = random.Random(1), Counter[int | None]()
    for _ in range(400):
        held, known = drawn(draw), draw.choice([5, 7, 13])
        room = held.room(SWARM)
        ordered = tuple(sorted(room.readys, key=lambda key: room.readys[key][1]))
        readys = tuple(room.readys[key][0] for key in ordered)
        sizes = [size for size in range(3, len(ordered) + 1) if room._is_allowed(readys[:size], known)]
        enough = sizes[0] if len(ordered) in sizes else None
        assert room._enough(ordered, known) == enough
        found[enough] += 1
    assert set(found) == {3, 4, 5, 6, 7, None}, "all sizes occur"


# -- two whose link is cut -----------------------------------------------------------------------------


def again(held: Matchmaker, now: float, turn: int, places: Iterable[int], *wishes: tuple[int, int]) -> None:
    """Announces these anew and takes a READY of each; each of `wishes` is (who, whom it would leave out)."""
    for place in places:
        one = ready(KEYS[place], COORDINATOR, counter=COUNTER + 1 + turn)
        held.announce(one.announce, now)
        whom = tuple(KEYS[other].public for who, other in wishes if who == place)
        held.leave_out(SWARM, one.key, LeftOut(one.nonce, whom))
        held.ready(one, now)


def asides(
    *wishes: tuple[int, int], groups: int, absent: dict[int, int] | None = None, at_peace: Container[int] = ()
) -> list[int | None]:
    """Returns whom each of so many groups of five leaves out.

    `absent`: who is not READY, by group. `at_peace`: the groups in which nobody wishes anything.
    """
    held, found = matchmaker(), list[int | None]()
    for key in KEYS[:5]:
        held.announce(announce(key), NOW)
    for number in range(groups):
        now, away = NOW + 10 * number, (absent or {}).get(number)
        here = [place for place in range(5) if place != away]
        if away is not None:
            held.announce(announce(KEYS[away], counter=COUNTER + 1 + number), now)
        again(held, now, number, here, *(() if number in at_peace else wishes))
        groups_now = grouped(held, now) or grouped(held, now + LINGER_CAP_S)
        (rest,) = (set(public(0, 1, 2, 3, 4)).difference(chosen) for chosen in groups_now)
        found.append(next((place for place in range(5) if KEYS[place].public in rest), None))
    return found


def test_of_two_that_leave_out_each_other_always_the_same_waits_for_a_long_time_and_then_the_other():
    assert asides((1, 3), (3, 1), groups=3 * ASIDE + 1) == [1] * ASIDE + [3] * 2 * ASIDE + [1]


def test_of_an_elector_and_a_newcomer_that_leave_out_each_other_the_newcomer_waits_first():
    electors = of_keys(public(0, 1, 2, 4))
    held = at_odds((1, 3), (3, 1), electors=electors.digest)
    held.learn(SWARM, electors)
    assert grouped(held, NOW + 4) == [public(0, 1, 2, 4)]


def test_of_two_that_were_in_one_group_since_the_one_waits_that_has_waited_less():
    """They are at odds again: perhaps it failed, as one of them withholds from the other alone."""
    assert asides((1, 3), (3, 1), groups=5, at_peace={1, 3}) == [1, None, 3, None, 1]


def test_who_waits_already_goes_on_waiting_when_the_other_names_it_too():
    held = at_odds((1, 3))
    assert grouped(held, NOW + 4) == [public(0, 1, 2, 4)]
    again(held, NOW + 5, 0, (0, 1, 2, 4), (1, 3))
    nonce = held.room(SWARM).readys[KEYS[3].public][0].nonce
    held.leave_out(SWARM, KEYS[3].public, LeftOut(nonce, public(1)))
    assert grouped(held, NOW + 5) == [public(0, 1, 2, 4)]


def test_of_two_of_which_one_alone_leaves_the_other_out_they_wait_in_turns():
    assert asides((1, 3), groups=5) == [3, 1, 3, 1, 3]


def test_a_group_that_one_was_not_ready_for_ends_no_wait():
    assert asides((1, 3), (3, 1), groups=4, absent={1: 1, 2: 1}) == [1, 1, 1, 1]


def test_the_turn_of_one_that_is_never_ready_in_time_comes_too():
    held = at_odds((1, 3), (3, 1))
    assert grouped(held, NOW + 4) == [public(0, 2, 3, 4)]
    held.void(KEYS[1].public)
    for number in range(1, ASIDE):
        held.announce(announce(KEYS[1], counter=COUNTER + number), NOW + 4 + number)
        again(held, NOW + 4 + number, number, (0, 2, 3, 4), (3, 1))
        assert grouped(held, NOW + 4 + number) == [public(0, 2, 3, 4)]
    now = NOW + 4 + ASIDE
    again(held, now, ASIDE, (0, 2, 3, 4), (3, 1))
    assert grouped(held, now) == [], "it is waited for"
    again(held, now, ASIDE, (1,), (1, 3))
    assert grouped(held, now + 4) == [public(0, 1, 2, 4)]


def test_no_group_waits_for_one_that_it_would_only_set_aside_again():
    held = at_odds((1, 3), (3, 1))
    assert grouped(held, NOW + 4) == [public(0, 2, 3, 4)]
    held.void(KEYS[1].public)
    again(held, NOW + 5, 0, (0, 2, 3, 4), (3, 1))
    assert grouped(held, NOW + 5) == [public(0, 2, 3, 4)], "though it is announced, and not READY"
    assert held.room(SWARM).missed[KEYS[1].public] == 0, "it is not late: it was not waited for"
    again(held, NOW + 6, 1, (0, 2, 3, 4))
    assert grouped(held, NOW + 6) == [], "nobody leaves it out any more"
