"""A node ends its wait for a group with that of others, if none can come before those are back."""

import pytest

from protocol.actions import Failed, Reason
from protocol.quorum.electorate import of_names
from protocol.swarm.meeting.patience import PATIENT_ROUNDS
from protocol.swarm.node import Node
from protocol.wire.messages import Hello
from tests.parts import COUNTER, NOW, announce, base_of, endpoint, heard, members, vector
from tests.wires import INITIAL, node

KEYS = members(5)
ME, OTHERS = KEYS[0], KEYS[1:]
T_GROUP_S = 120.0
TRAINED_S = 40.0
OFFERED = NOW + TRAINED_S
LATE = OFFERED + T_GROUP_S - 2 * TRAINED_S + 1
"""Who ends a round by now, and trains for twice as long, is back after this node's T_group."""
SEVEN = of_names(f"127.0.0.1:{port}" for port in range(7))


def waiting(**changes) -> Node:
    """Returns one of five electors: it knows the others, has trained for TRAINED_S, and waits for a group."""
    named = [endpoint(key) for key in KEYS]
    mine = node(ME, **{"seeds": tuple(named), "electorate": of_names(named), **changes})
    mine.open(NOW)
    for key in OTHERS:
        hears(mine, key, NOW)
    mine.offer(vector(0), bytes(32), OFFERED)
    return mine


def hears(mine: Node, key, now: float, **changes) -> None:
    own = {"base": INITIAL, "counter": COUNTER + int(now - NOW) + 1, **changes}
    heard(mine, Hello(announce(key, **own), bytes(16), False, ""), now)


def ends(mine: Node, now: float) -> list[Reason]:
    return [action.reason for action in mine.tick(now) if isinstance(action, Failed)]


def test_it_waits_while_the_others_may_be_a_quorum_with_it_and_ends_with_the_one_that_they_need():
    mine = waiting()
    for key in OTHERS[:2]:
        hears(mine, key, LATE, round=1)
    assert not ends(mine, LATE)
    hears(mine, OTHERS[2], LATE + 1, round=1)
    assert mine.deadline <= LATE + 1
    assert ends(mine, LATE + 1) == [Reason.GROUP_TIMEOUT]


@pytest.mark.parametrize(
    ("own", "at", "said"),
    [
        pytest.param({}, LATE - 2, {"round": 1}, id="back in time"),
        pytest.param({}, NOW + 1, {"round": 1}, id="before the offer"),
        pytest.param({}, LATE, {}, id="no round ended"),
        pytest.param({}, LATE, {"round": 1, "base": base_of(vector(1), 1)}, id="with a sum"),
        pytest.param({}, LATE, {"round": 1, "instance": b"2" * 16}, id="another start"),
        pytest.param({"electorate": SEVEN}, LATE, {"round": 1}, id="they would be no quorum either"),
        pytest.param({"wait_s": 1000.0}, LATE, {"round": 1}, id="its owner waits longer"),
    ],
)
def test_it_waits_on_for_who_is_not_missed(own, at, said):
    mine = waiting(**own)
    for key in OTHERS:
        hears(mine, key, at, **said)
    assert not ends(mine, LATE)


def test_too_few_for_a_group_are_none():
    mine = waiting(min_participants=4)
    hears(mine, OTHERS[0], LATE, round=1)
    assert not ends(mine, LATE)
    hears(mine, OTHERS[1], LATE, round=1)
    assert ends(mine, LATE) == [Reason.GROUP_TIMEOUT]


@pytest.mark.parametrize("is_willing", [False, True])
def test_more_than_half_are_a_group_where_no_electors_are_known_or_it_would_join_a_weak_one(is_willing):
    mine = waiting(electorate=of_names(["127.0.0.1:1"]) if is_willing else None)
    mine._patience.failed_rounds = PATIENT_ROUNDS if is_willing else 0
    for key in OTHERS[:2]:
        hears(mine, key, LATE, round=1)
    assert not ends(mine, LATE)
    hears(mine, OTHERS[2], LATE, round=1)
    assert ends(mine, LATE) == [Reason.GROUP_TIMEOUT]
