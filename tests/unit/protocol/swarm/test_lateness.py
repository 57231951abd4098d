"""Who is slow and who fell behind."""

import pytest

from protocol.swarm.lateness import FEWEST_ROUNDS, SILENCE_S, Awaited, Behind, Late, Lateness, Slow
from protocol.swarm.meeting.membership import Members
from tests.parts import NOW, announce, base, endpoint, members, settings, state
from tests.wires import Wires

KEYS = members(4)
ONE, TWO, THREE, FOUR = (key.public for key in KEYS)


def lateness(made: int = 0, **changes) -> tuple[Lateness, Members]:
    where = state(held=base(made))
    there = Members(where)
    found = Lateness(settings(KEYS[0], **changes), where, there)
    found.heard(NOW, lambda: Awaited((), 0))
    return found, there


def rounds(found: Lateness, waits_s: list[float], awaited: Awaited) -> None:
    now = found._last
    for wait_s in waits_s:
        now += wait_s
        found.heard(now, lambda: awaited)
        found.ended()


def late(found: Lateness) -> tuple[Late, ...]:
    found.look()
    return found.late


def test_who_keeps_the_others_waiting_in_several_rounds_is_slow():
    found, there = lateness()
    there.learn(announce(KEYS[1]), NOW, live=True)
    for_two = Awaited((TWO,), 2)
    rounds(found, [2.0] * (FEWEST_ROUNDS - 1), for_two)
    assert late(found) == ()
    rounds(found, [2.0], for_two)
    assert late(found) == found.of(announce(KEYS[1])) == (Slow(TWO, endpoint(KEYS[1]), 3, 2.0),)


def test_who_is_on_time_again_is_not_slow_any_more():
    found, there = lateness()
    there.learn(announce(KEYS[1]), NOW, live=True)
    rounds(found, [5.0] * 3, Awaited((TWO,), 2))
    assert len(late(found)) == 1
    rounds(found, [0.0] * 5, Awaited((TWO,), 2))
    assert late(found) == ()


@pytest.mark.parametrize(
    ("awaited", "wait_s"),
    [
        (Awaited((TWO, THREE), 2), 9.0),  # most others: perhaps this node itself is slow
        (Awaited((), 2), 9.0),
        (Awaited((TWO,), 2), SILENCE_S / 2),
    ],
)
def test_what_is_nobody_s_fault_counts_for_nobody(awaited, wait_s):
    found, there = lateness()
    there.learn(announce(KEYS[1]), NOW, live=True)
    rounds(found, [wait_s] * 5, awaited)
    assert late(found) == ()


def test_who_announces_a_base_long_past_fell_behind():
    found, there = lateness(6)
    for key, sums in zip(KEYS[1:], (4, 5, 0), strict=True):
        there.learn(announce(key, base=base(sums), round=9), NOW, live=True)
    assert late(found) == (Behind(TWO, endpoint(KEYS[1]), 4, 6),)
    by_steps, there = lateness(6, sums=9, by_steps=True)
    there.learn(announce(KEYS[1], base=base(4)), NOW, live=True)
    assert late(by_steps) == ()


def test_a_node_shows_who_is_slow_in_sums():
    wires = Wires(KEYS[:3]).open()
    slow = endpoint(KEYS[2])
    for _ in range(FEWEST_ROUNDS):
        wires.dropped = lambda here, _to, _message: here == slow
        wires.offer(*KEYS[:2])
        wires.dropped = lambda _from, _to, _message: False
        wires.now += 3.0
        wires.offer(KEYS[2])
        wires.tick(0.5)
    told = wires[KEYS[0]].picture().late
    assert [(one.endpoint, one.sums) for one in told] == [(slow, 3)]
    assert told[0].mean_s == pytest.approx(3.0, abs=0.1)
    (found,) = (peer for peer in wires[KEYS[0]].known_peers if peer.endpoint == slow)
    assert found.remarks.late == told


def test_a_coordinator_alone_waits_for_readys():
    wires = Wires(KEYS[:3]).open().offer(*KEYS[:2])
    assert wires[KEYS[0]]._coordination.unready == {THREE}
    assert wires[KEYS[1]]._coordination.unready == frozenset()
    assert wires[KEYS[0]]._coordination.matchmaker.unready(("another", b"")) == frozenset()
    wires.follow(KEYS[2])
    assert wires[KEYS[0]]._coordination.unready == frozenset()
