"""The switch of a relay: who reaches whom, what is said of those who are away, and all bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol.errors import RemoteProtocolError
from protocol.relay.admission import CarrierKind
from protocol.relay.frames import FROM_RELAY, PIECE_BYTES, Absence, Frame, FrameKind, read_frame
from protocol.relay.switch import DAY_S, KNOWN_SWARMS, LIMITS, MAX_KNOWN_KEYS, MIB, SwarmId, Switch
from protocol.relay.waiting import FRAME_COST_BYTES, MAX_NOTES

A, B, C, STRANGER = (bytes([number]) * 32 for number in (1, 2, 3, 4))
KEYS = frozenset((A, B, C))
SWARM = SwarmId(A, bytes(32))
CONTROL, BULK = CarrierKind.CONTROL, CarrierKind.BULK
NOW = 100.0


def enter(switch, key, kind=BULK, process=1, swarm=SWARM, keys=KEYS):
    return switch.enter(key, kind, process, swarm, keys)[0]


def send(switch, carrier, to, data=b"", kind=FrameKind.DATA, stream=7, offset=0, now_s=NOW):
    frame = Frame(to, kind, stream, offset, memoryview(data))
    return switch.pass_on(carrier, memoryview(b"".join(frame.parts)), now_s)


def taken(switch, carrier):
    """All frames for a carrier."""
    found = []
    while (parts := switch.take(carrier)) is not None:
        found.append(read_frame(memoryview(b"".join(parts))))
    return found


@pytest.fixture
def switch() -> Switch:
    """An empty switch with the limits of a relay."""
    return Switch()


# -- who reaches whom --------------------------------------------------------------------------------


def test_a_frame_comes_with_its_senders_key_and_is_otherwise_unchanged(switch):
    a, b = enter(switch, A), enter(switch, B)
    data = memoryview(bytes(range(256)) * 10)
    assert send(switch, a, B, data, stream=1 << 63, offset=1 << 40).woken == (b,)
    assert taken(switch, b) == [Frame(A, FrameKind.DATA, 1 << 63, 1 << 40, data)]
    assert switch.take(a) is None
    assert (switch.carried_frames, switch.carried_bytes, a.carried_bytes) == (1, 49 + 2560, 49 + 2560)


def test_the_data_of_a_frame_are_never_copied(switch):
    a, b = enter(switch, A), enter(switch, B)
    message = memoryview(B + bytes([FrameKind.DATA]) + bytes(116))
    switch.pass_on(a, message, NOW)
    parts = switch.take(b)
    assert parts is not None
    assert parts[1].obj is message.obj


def test_frames_leave_on_the_kind_of_carrier_on_which_they_came(switch):
    a_control, a_bulk = enter(switch, A, CONTROL), enter(switch, A, BULK)
    b_control, b_bulk = enter(switch, B, CONTROL), enter(switch, B, BULK)
    send(switch, a_control, B, b"small")
    send(switch, a_bulk, B, b"large")
    assert [bytes(frame.data) for frame in taken(switch, b_control)] == [b"small"]
    assert [bytes(frame.data) for frame in taken(switch, b_bulk)] == [b"large"]


def test_a_stranger_is_answered_by_a_reset_of_the_stream(switch):
    a = enter(switch, A)
    enter(switch, STRANGER, swarm=SwarmId(STRANGER, bytes(32)), keys=frozenset((STRANGER,)))
    assert send(switch, a, STRANGER, b"hello", stream=9).woken == (a,)
    assert taken(switch, a) == [Frame(STRANGER, FrameKind.RESET, 9)]
    send(switch, a, STRANGER, kind=FrameKind.RESET)
    assert taken(switch, a) == []


def test_an_inviter_cannot_name_itself_into_the_swarm_of_another(switch):
    a = enter(switch, A)
    stranger = enter(switch, STRANGER, swarm=SwarmId(STRANGER, SWARM.swarm), keys=frozenset((STRANGER, A)))
    send(switch, stranger, A, b"hello")
    assert taken(switch, a) == []
    assert [frame.kind for frame in taken(switch, stranger)] == [FrameKind.AWAY]


def test_a_later_member_is_reached_once_it_or_another_has_shown_its_pass(switch):
    a = enter(switch, A)
    send(switch, a, STRANGER)
    assert [frame.kind for frame in taken(switch, a)] == [FrameKind.RESET]
    enter(switch, B, keys=KEYS | {STRANGER})
    send(switch, a, STRANGER)
    assert [frame.kind for frame in taken(switch, a)] == [FrameKind.AWAY]
    late = enter(switch, STRANGER, keys=KEYS | {STRANGER})
    send(switch, a, STRANGER, b"hello")
    assert [bytes(frame.data) for frame in taken(switch, late)] == [b"hello"]


def test_the_keys_of_a_swarm_are_bounded(switch):
    enter(switch, A)
    many = frozenset(number.to_bytes(32, "big") for number in range(MAX_KNOWN_KEYS))
    assert enter(switch, B, keys=KEYS | many).key == B
    with pytest.raises(RemoteProtocolError):
        enter(switch, STRANGER, keys=KEYS | {STRANGER} | many)
    assert switch.swarms == 1
    fresh = Switch()
    with pytest.raises(RemoteProtocolError):
        enter(fresh, STRANGER, keys=KEYS | {STRANGER} | many)
    assert fresh.swarms == 0


@pytest.mark.parametrize("size", [0, 48, 50 + PIECE_BYTES])
def test_what_is_no_frame_closes_the_carrier(switch, size):
    with pytest.raises(RemoteProtocolError):
        switch.pass_on(enter(switch, A), memoryview(bytes(size)), NOW)


@pytest.mark.parametrize("kind", sorted(FROM_RELAY))
def test_a_member_cannot_say_what_only_a_relay_says(switch, kind):
    a, b = enter(switch, A), enter(switch, B)
    assert send(switch, a, B, kind=kind) == ((), 0.0)
    assert taken(switch, b) == []
    assert switch.dropped.total() == 1


# -- away and here -----------------------------------------------------------------------------------


@pytest.mark.parametrize("absence", Absence)
def test_senders_hear_once_that_an_addressee_is_away_and_when_it_is_back(switch, absence):
    a, b, c = enter(switch, A), enter(switch, B), enter(switch, C)
    send(switch, a, B)
    assert switch.leave(b, absence) == (a,)
    away = Frame(B, FrameKind.AWAY, offset=absence)
    assert taken(switch, a) == [away]
    assert taken(switch, c) == []
    send(switch, a, B)
    send(switch, c, B)
    send(switch, c, B)
    assert taken(switch, a) == []
    assert taken(switch, c) == [away]
    _, older, woken = switch.enter(B, BULK, 2, SWARM, KEYS)
    assert (older, woken.__class__, {*woken}) == (None, tuple, {a, c})
    assert taken(switch, a) == taken(switch, c) == [Frame(B, FrameKind.HERE, stream=2)]


def test_whoever_never_came_is_away(switch):
    a = enter(switch, A, CONTROL)
    enter(switch, B, BULK)
    send(switch, a, B)
    assert taken(switch, a) == [Frame(B, FrameKind.AWAY, offset=Absence.SILENT)]


def test_a_sender_that_comes_back_hears_again_who_is_away(switch):
    a, b = enter(switch, A), enter(switch, B)
    enter(switch, C)
    send(switch, a, B)
    switch.leave(b, Absence.CLOSED)
    switch.leave(a, Absence.SILENT)
    again = enter(switch, A)
    send(switch, again, B)
    assert taken(switch, again) == [Frame(B, FrameKind.AWAY, offset=Absence.CLOSED)]


def test_only_the_last_word_about_a_member_waits(switch):
    a, b = enter(switch, A), enter(switch, B)
    send(switch, a, B)
    switch.leave(b, Absence.SILENT)
    enter(switch, B, process=5)
    assert taken(switch, a) == [Frame(B, FrameKind.HERE, stream=5)]


def test_a_newer_carrier_replaces_the_older(switch):
    a, b = enter(switch, A), enter(switch, B)
    send(switch, a, B, bytes(100))
    newer, older, woken = switch.enter(B, BULK, 9, SWARM, KEYS)
    assert (older, woken) == (b, (a,))
    assert taken(switch, a) == [Frame(B, FrameKind.HERE, stream=9)]
    assert switch.held_bytes == 0
    assert taken(switch, b) == taken(switch, newer) == []
    assert switch.leave(b, Absence.SILENT) == ()
    assert send(switch, b, A) == ((), 0.0)
    assert taken(switch, a) == []
    send(switch, a, B, b"new")
    assert [bytes(frame.data) for frame in taken(switch, newer)] == [b"new"]
    assert [*switch.carriers] == [a, newer]


def test_a_member_that_writes_to_itself_hears_nothing_of_its_own_coming(switch):
    a = enter(switch, A)
    send(switch, a, A, b"me")
    again, older, woken = switch.enter(A, BULK, 2, SWARM, KEYS)
    assert (older, woken) == (a, ())
    assert taken(switch, again) == []


def test_a_swarm_without_carriers_is_forgotten(switch):
    a, b = enter(switch, A), enter(switch, B)
    send(switch, a, B)
    assert switch.leave(b, Absence.CLOSED) == (a,)
    assert switch.leave(a, Absence.CLOSED) == ()
    assert (switch.swarms, [*switch.carriers]) == (0, [])
    send(switch, enter(switch, B), A)
    a = enter(switch, A)
    send(switch, a, B)
    assert [frame.kind for frame in taken(switch, a)] == []


def test_senders_that_have_gone_hear_nothing(switch):
    a, b, _ = enter(switch, A), enter(switch, B), enter(switch, C)
    send(switch, a, B)
    switch.leave(a, Absence.CLOSED)
    assert switch.leave(b, Absence.CLOSED) == ()
    assert switch.enter(B, BULK, 2, SWARM, KEYS)[2] == ()


# -- bounds ------------------------------------------------------------------------------------------


def fill(switch, carrier, to, pieces, now_s=NOW):
    return [send(switch, carrier, to, bytes(PIECE_BYTES), now_s=now_s) for _ in range(pieces)]


def kinds(switch, carrier):
    return [frame.kind for frame in taken(switch, carrier)]


def test_from_one_to_one_a_window_waits_and_what_is_more_is_dropped_and_said_once(switch):
    a, b, c = enter(switch, A), enter(switch, B), enter(switch, C)
    fill(switch, a, B, 30)
    waits = b.waiting.held_bytes
    assert MIB <= waits <= LIMITS.pair_bytes
    assert waits == switch.held_bytes
    assert kinds(switch, a) == [FrameKind.FULL]
    send(switch, c, B, b"beside")
    assert len(taken(switch, b)) == 19 + 1
    fill(switch, a, B, 30)
    assert kinds(switch, a) == [FrameKind.FULL], "once until drained, and it was drained"


def test_senders_come_in_turn(switch):
    a, b, c = enter(switch, A), enter(switch, B), enter(switch, C)
    fill(switch, a, B, 3)
    send(switch, c, B, b"small")
    assert [frame.key for frame in taken(switch, b)] == [A, C, A, A]


def test_for_one_all_senders_together_are_bounded():
    switch = Switch(replace(LIMITS, carrier_bytes=2 * MIB))
    a, b, c = enter(switch, A), enter(switch, B), enter(switch, C)
    fill(switch, a, B, 18)
    fill(switch, c, B, 18)
    assert b.waiting.held_bytes <= 2 * MIB
    assert kinds(switch, a) == []
    assert kinds(switch, c) == [FrameKind.FULL]
    taken(switch, b)
    assert not b.full


def test_a_sender_without_a_queue_is_told_again_once_another_has_drained():
    switch = Switch(replace(LIMITS, carrier_bytes=MIB))
    a, b, c, d = (enter(switch, key, keys=KEYS | {STRANGER}) for key in (A, B, C, STRANGER))
    fill(switch, a, B, 10)
    fill(switch, c, B, 1)
    fill(switch, a, B, 10)
    fill(switch, d, B, 1)
    assert b.full == {A, STRANGER}
    switch.take(b)
    assert b.full == {A, STRANGER}
    switch.take(b)
    assert b.full == {A}, "C has drained"


def test_small_frames_count_for_the_memory_that_they_take(switch):
    a, b = enter(switch, A), enter(switch, B)
    for _ in range(3000):
        send(switch, a, B)
    assert len(taken(switch, b)) == LIMITS.pair_bytes // (FRAME_COST_BYTES + 49)


def test_stuck_readers_share_the_memory_and_leave_the_others_their_way():
    limits = replace(LIMITS, all_bytes=8 * MIB, burst_bytes=10**12)
    switch = Switch(limits)
    keys = [bytes([number]) * 32 for number in range(1, 33)]
    carriers = [enter(switch, key, keys=frozenset(keys)) for key in keys]
    stuck, well = carriers[:30], carriers[30:]
    for sender in (*stuck, well[0]):
        for reader in stuck:
            fill(switch, sender, reader.key, 20)
            assert switch.held_bytes <= limits.all_bytes
    assert switch.held_bytes > limits.all_bytes - 2 * PIECE_BYTES
    assert FrameKind.FULL in kinds(switch, well[0])
    for _ in range(50):
        fill(switch, well[0], well[1].key, 4)
        assert len(taken(switch, well[1])) == 4
        assert switch.held_bytes <= limits.all_bytes
    assert kinds(switch, well[0]) == []
    assert switch.held_bytes == sum(carrier.waiting.held_bytes for carrier in switch.carriers)


def test_who_lost_its_queue_to_others_hears_of_it():
    switch = Switch(replace(LIMITS, all_bytes=2 * MIB))
    keys = [bytes([number]) * 32 for number in range(1, 5)]
    a, b, c, d = (enter(switch, key, keys=frozenset(keys)) for key in keys)
    fill(switch, a, b.key, 18)
    fill(switch, c, b.key, 15)
    assert fill(switch, d, a.key, 1)[0].woken == (a, a)
    assert kinds(switch, a) == [FrameKind.FULL, FrameKind.DATA]
    assert {frame.key for frame in taken(switch, b)} == {c.key}


def test_who_lost_its_queue_and_has_gone_hears_nothing():
    switch = Switch(replace(LIMITS, all_bytes=2 * MIB))
    keys = [bytes([number]) * 32 for number in range(1, 5)]
    a, b, c, d = (enter(switch, key, keys=frozenset(keys)) for key in keys)
    fill(switch, a, b.key, 18)
    fill(switch, c, b.key, 15)
    switch.leave(a, Absence.CLOSED)
    assert [one.woken for one in fill(switch, d, c.key, 3)] == [(c,), (c,), (c,)]


def test_a_sender_beyond_its_rate_is_to_be_read_later():
    switch = Switch(replace(LIMITS, bytes_per_s=1000, burst_bytes=10_000))
    a, a_control, b = enter(switch, A), enter(switch, A, CONTROL), enter(switch, B)
    enter(switch, B, CONTROL)
    assert send(switch, a, B, bytes(9951)).rest_s == 0.0
    assert send(switch, a_control, B, bytes(951)).rest_s == pytest.approx(1.0)
    assert send(switch, a, B, bytes(951), now_s=NOW + 2).rest_s == pytest.approx(0.0)
    assert len(taken(switch, b)) == 2


def test_a_swarm_is_carried_so_much_in_a_day():
    switch = Switch(replace(LIMITS, bytes_per_day=10_000))
    a, b = enter(switch, A), enter(switch, B)
    send(switch, a, B, bytes(9900))
    for _ in range(3):
        send(switch, a, B, bytes(100))
        send(switch, b, A, bytes(100))
    assert len(taken(switch, b)) == 2
    (limit,) = taken(switch, a)
    assert (limit.kind, limit.key) == (FrameKind.LIMIT, A)
    assert bytes(limit.data) == b"the relay carries no more for this swarm today (1e-05 GB)"
    again = enter(switch, A)
    send(switch, again, B, bytes(100))
    assert kinds(switch, again) == [FrameKind.LIMIT]
    send(switch, again, B, bytes(100), now_s=NOW + DAY_S)
    assert [len(frame.data) for frame in taken(switch, b)][-1] == 100
    assert kinds(switch, again) == []


def test_the_days_of_the_latest_swarms_are_kept():
    switch = Switch(replace(LIMITS, bytes_per_day=100))
    for number in range(KNOWN_SWARMS + 1):
        swarm = SwarmId(A, number.to_bytes(32, "big"))
        a, b = enter(switch, A, swarm=swarm), enter(switch, B, swarm=swarm)
        send(switch, a, B)
        send(switch, a, B)
        switch.leave(a, Absence.CLOSED)
        switch.leave(b, Absence.CLOSED)
    a, b = enter(switch, A, swarm=SwarmId(A, bytes(32))), enter(switch, B, swarm=SwarmId(A, bytes(32)))
    send(switch, a, B)
    assert len(taken(switch, b)) == 1, "forgotten, so it begins again"
    assert switch.dropped.total() == 0


def test_the_relays_own_words_are_bounded(switch):
    a = enter(switch, A)
    for stream in range(2 * MAX_NOTES):
        send(switch, a, STRANGER, stream=stream)
    assert len(taken(switch, a)) == MAX_NOTES


def test_a_member_is_told_the_limits():
    assert LIMITS.welcome.bytes_per_s == 25_000_000
    assert LIMITS.welcome.burst_bytes == 64_000_000
    assert LIMITS.welcome.bytes_per_day == 200_000_000_000
