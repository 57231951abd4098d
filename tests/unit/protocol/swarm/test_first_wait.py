"""The owner's wait for a group: no round ends, the node says who is missing, patience counts."""

import math

import pytest

from protocol.actions import Completed, Failed, Reason, Waiting
from protocol.quorum.electorate import of_names
from protocol.swarm.meeting.group_seeker import MAX_TRIES
from protocol.swarm.meeting.patience import PATIENT_ROUNDS
from protocol.swarm.votes.obstacle import Stage
from protocol.wire.messages import Ready, Share
from tests.parts import NOW, base_of, endpoint, members, outbox, vector
from tests.wires import Wires, node

KEYS = members(5)
T_GROUP_S = 120.0
T_SHARES_S = 15.0


def two_of_three(wait_s: float, **changes) -> Wires:
    """Two of three named peers meet and offer; the third is not there."""
    named = tuple(endpoint(key) for key in KEYS[:3])
    options = {"electorate": of_names(named), "seeds": named, "wait_s": wait_s, **changes}
    return Wires(KEYS[:2], **options).open().tick(6.0).offer()


def reminders(wires: Wires) -> int:
    return [action for _, action in wires.told].count(Waiting(is_anew=True))


@pytest.mark.parametrize("wait_s", [1000.0, math.inf])
def test_while_the_owner_waits_no_round_ends_and_each_t_group_says_who_is_missing(wait_s):
    wires = two_of_three(wait_s)
    for count in range(1, 4):
        wires.tick(T_GROUP_S)
        assert reminders(wires) == 2 * count
    assert not wires.ends(Failed)
    assert {wires[key].round for key in wires.keys} == {0}
    found = wires[KEYS[0]].picture().obstacle
    assert ([one.name for one in found.absent], found.stage) == ([endpoint(KEYS[2])], Stage.TOO_FEW)


def test_the_status_says_how_long_the_owner_waits_at_most():
    assert two_of_three(0.0)[KEYS[0]].status.deadline == NOW + 6.0 + T_GROUP_S
    assert two_of_three(1000.0)[KEYS[0]].status.deadline == NOW + 6.0 + 1000.0
    assert two_of_three(math.inf)[KEYS[0]].status.deadline is None
    assert two_of_three(math.inf)[KEYS[0]].deadline < NOW + 6.0 + T_GROUP_S, "the machine itself still ticks"


def test_the_wait_ends_on_time_and_its_round_is_the_first_that_fails():
    wires = two_of_three(200.0).tick(T_GROUP_S).tick(200.0 - T_GROUP_S - 1)
    assert not wires.ends(Failed)
    wires.tick(1.0)
    assert [end.round for _, end in wires.ends(Failed)] == [1, 1]
    wires.offer().tick(T_GROUP_S)
    assert [end.round for _, end in wires.ends(Failed)] == [1, 1, 2, 2], "later offers wait for T_group alone"


def test_after_the_first_group_a_round_without_one_ends_at_t_group():
    named = tuple(endpoint(key) for key in KEYS[:3])
    wires = Wires(KEYS[:3], electorate=of_names(named), seeds=named, wait_s=math.inf).open().offer()
    assert len(wires.ends(Completed)) == 3
    wires.offer(KEYS[0])
    assert wires[KEYS[0]].status.deadline <= wires.now + T_GROUP_S
    wires.tick(T_GROUP_S, KEYS[0])
    assert [end.reason for _, end in wires.ends(Failed)] == [Reason.GROUP_TIMEOUT]


def test_where_every_offer_waits_no_round_ends_after_the_first_group_either():
    named = tuple(endpoint(key) for key in KEYS[:3])
    waits = {"wait_s": math.inf, "wait_each_s": math.inf}
    wires = Wires(KEYS[:3], electorate=of_names(named), seeds=named, **waits).open().offer()
    assert len(wires.ends(Completed)) == 3
    wires.offer(*KEYS[:2])
    for _ in range(3):
        wires.tick(T_GROUP_S, *KEYS[:2])
    assert not wires.ends(Failed)
    assert wires[KEYS[0]].status.deadline is None
    wires.offer(KEYS[2]).tick(0.0).tick(10.0)
    assert len(wires.ends(Completed)) == 6
    assert not wires.ends(Failed)


@pytest.mark.parametrize("wait_each_s", [0.0, math.inf])
def test_where_every_offer_waits_one_that_its_session_has_not_spent_waits_on(wait_each_s):
    """Nobody's shares arrive. Each node shows that it has left that session, so that no vote stays bound."""
    named = tuple(endpoint(key) for key in KEYS[:3])
    wires = Wires(KEYS[:3], electorate=of_names(named), seeds=named, wait_each_s=wait_each_s).open()
    wires.dropped = lambda _from, _to, message: isinstance(message, Share)
    wires.offer().tick(T_SHARES_S)
    failed = [(end.round, end.reason) for _, end in wires.ends(Failed)]
    assert failed == ([] if wait_each_s else [(1, Reason.SHARES_TIMEOUT)] * 3)
    assert [wires[key].round for key in wires.keys] == [1, 1, 1]
    wires.dropped = lambda *_: False
    for _ in range(3):
        wires.tick(5.0)
    rounds = [end.round for _, end in wires.ends(Completed)]
    assert rounds == ([3, 3, 3] if wait_each_s else []), "a second session began before shares arrived again"


def left(wires: Wires) -> int:
    return wires[wires.keys[0]].picture().obstacle.patience.rounds


def test_waits_count_for_the_patience_and_the_next_ready_says_so():
    """Three of seven electors: after five waits they make a weak base together, without a failed round."""
    named = tuple(endpoint(key) for key in members(7))
    wires = Wires(members(7)[:3], electorate=of_names(named), seeds=named, wait_s=math.inf)
    wires.open().tick(6.0).offer()
    assert (left(wires), wires[wires.keys[0]].picture().obstacle.patience.wait_s) == (
        PATIENT_ROUNDS,
        T_GROUP_S,
    )
    for _ in range(PATIENT_ROUNDS - 1):
        wires.tick(T_GROUP_S)
    assert left(wires) == 1
    assert not wires.ends(Completed)
    wires.tick(T_GROUP_S).tick(5.0)
    assert [(end.line.anchor, end.round) for _, end in wires.ends(Completed)] == [(0, 1)] * 3
    assert not wires.ends(Failed)


def test_each_wait_may_ask_coordinators_anew():
    one = node(KEYS[1], seeds=(endpoint(KEYS[0]),), wait_s=math.inf)
    one.open(NOW)
    one.tick(NOW + 6)
    one.offer(vector(1), bytes(32), NOW + 6)
    offer = one._seeker.offer
    offer.tries, offer.turned_down = MAX_TRIES, {KEYS[0].public}
    one.adopted(base_of(vector(2), 1), NOW + 7)
    assert offer.current is None, "all tries of this wait are used up"
    one.tick(NOW + 6 + T_GROUP_S)
    assert (offer.tries, offer.turned_down) == (MAX_TRIES + 1, set())
    assert offer.current is not None


def test_a_new_wait_sends_a_new_ready_to_the_coordinator():
    wires = two_of_three(math.inf)
    asked = wires[KEYS[1]].tick(wires.now + T_GROUP_S)
    assert [type(message) for message in outbox(asked, endpoint(KEYS[0]))].count(Ready) == 1
