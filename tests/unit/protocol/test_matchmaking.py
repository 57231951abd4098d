"""When a GROUP is sent, to whom, and which READYs never get into one."""

from dataclasses import replace

import pytest

from protocol import codec
from protocol.errors import RemoteProtocolError
from protocol.matchmaking import LINGER_CAP_S, MAX_ANNOUNCED, MAX_ROOMS, Matchmaker
from protocol.messages import Accepted, Group
from tests.parts import COUNTER, NOW, announce, base, members, outbox, ready, resigned, stranger

KEYS = members(7)
COORDINATOR = KEYS[0].public
SWARM = announce(KEYS[0]).swarm


def matchmaker(min_participants: int = 3) -> Matchmaker:
    return Matchmaker(KEYS[0], min_participants)


def holding(count: int, announced: int = 0, **changes) -> Matchmaker:
    """READYs of `count` members, one a second from NOW on; `announced` in all."""
    held = matchmaker()
    for key in KEYS[: max(count, announced)]:
        held.announce(announce(key, **changes), NOW)
    for number, key in enumerate(KEYS[:count]):
        held.ready(ready(key, COORDINATOR, **changes), NOW + number)
    return held


def grouped(held: Matchmaker, now: float, known: int | None = None) -> list[tuple[bytes, ...]]:
    """The members of the groups that are closed now."""
    groups = [message for action in held.close_groups(now, known) for message in action.messages]
    for group in groups:
        codec.verify(group, COORDINATOR)
    return sorted({tuple(ready.key for ready in group.readys) for group in groups})


def public(*places: int) -> tuple[bytes, ...]:
    return tuple(KEYS[place].public for place in places)


def test_a_ready_is_answered_with_its_nonce():
    actions = matchmaker().ready(ready(KEYS[1], COORDINATOR, nonce=7), NOW)

    assert outbox(actions, KEYS[1].public) == [Accepted(bytes([7]) * 16)]


def test_a_group_is_sent_to_its_members_at_once_when_all_announced_are_ready():
    held = holding(3)
    actions = held.close_groups(NOW + 2)

    assert [action.to for action in actions] == list(public(0, 1, 2))
    (group,) = {message for action in actions for message in action.messages}
    assert isinstance(group, Group)
    assert (tuple(one.key for one in group.readys), group.attempt) == (public(0, 1, 2), 0)


def test_a_group_is_closed_once():
    held = holding(3)
    assert grouped(held, NOW + 2) == [public(0, 1, 2)]
    assert grouped(held, NOW + 3) == []


def test_each_group_of_a_room_has_another_attempt():
    held = holding(3)
    held.close_groups(NOW + 2)
    for key in KEYS[:3]:
        held.ready(ready(key, COORDINATOR, nonce=1, counter=COUNTER + 1), NOW + 3)
    (group,) = {message for action in held.close_groups(NOW + 3) for message in action.messages}

    assert group.attempt == 1


def test_too_few_readys_make_no_group_however_long_one_waits():
    held = holding(2, announced=2)

    assert grouped(held, NOW + 25) == []


def test_a_group_waits_for_the_announced_until_linger_after_the_third_ready():
    held = holding(4, announced=5)

    assert grouped(held, NOW + 3) == []
    assert held.deadline == NOW + 2 + LINGER_CAP_S
    assert grouped(held, NOW + 2 + LINGER_CAP_S) == [public(0, 1, 2, 3)]


def test_linger_adapts_to_how_far_apart_readys_come():
    held = holding(3)
    for number in range(4):
        for key in KEYS[:3]:
            held.ready(ready(key, COORDINATOR, counter=COUNTER + number + 1), NOW + number)
        held.close_groups(NOW + number)

    assert held.room(SWARM).pace.allowed_s < LINGER_CAP_S


def test_who_can_not_be_reached_is_not_waited_for_until_heard_again():
    held = holding(3, announced=4)
    held.unreachable(KEYS[3].public)
    held.unreachable(stranger().public)
    assert grouped(held, NOW + 2) == [public(0, 1, 2)]

    held = holding(3, announced=4)
    held.unreachable(KEYS[3].public)
    held.announce(announce(KEYS[3], counter=COUNTER + 1), NOW)
    assert grouped(held, NOW + 2) == []


def test_a_follower_is_not_waited_for():
    held = holding(3, announced=4)
    held.announce(announce(KEYS[3], counter=COUNTER + 1, following=True), NOW)

    assert grouped(held, NOW + 2) == [public(0, 1, 2)]


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


def test_the_ready_of_who_follows_since_does_not_count():
    held = holding(4)
    held.announce(announce(KEYS[3], counter=COUNTER + 1, following=True), NOW)

    assert grouped(held, NOW + 3) == [public(0, 1, 2)]


def test_the_ready_of_who_can_not_be_reached_does_not_count():
    held = holding(3)
    held.unreachable(KEYS[2].public)

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


def test_a_group_exceeds_half_of_the_announced():
    held = holding(3, announced=6)
    assert grouped(held, NOW + 20) == []

    held.ready(ready(KEYS[3], COORDINATOR), NOW + 20)
    assert grouped(held, NOW + 26) == [public(0, 1, 2, 3)]


def test_a_group_exceeds_half_of_the_members_that_the_coordinator_knows():
    assert grouped(holding(3), NOW + 20, known=6) == []
    assert grouped(holding(3), NOW + 20, known=5) == [public(0, 1, 2)]


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


def test_a_leaving_peer_is_not_waited_for_and_its_ready_is_gone():
    held = holding(3, announced=4)
    assert held.announce(announce(KEYS[3], counter=COUNTER + 1, leaving=True), NOW)
    assert grouped(held, NOW + 2) == [public(0, 1, 2)]

    held = holding(3)
    held.announce(announce(KEYS[2], counter=COUNTER + 1, leaving=True), NOW)
    assert grouped(held, NOW + 20) == []


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
