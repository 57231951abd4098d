"""Needless waits, each of which the simulator found as an outlier among random schedules."""

import numpy as np
import pytest

from protocol.actions import Action, Failed, Reason
from protocol.swarm.meeting.matchmaker import Matchmaker
from protocol.swarm.node import Node
from protocol.wire.messages import Message
from tests.parts import COUNTER, NOW, announce, endpoint, group_of, heard, members, only, outbox, rand, ready
from tests.wires import INITIAL, hello, node

ONE, TWO, THREE = members(3)
VECTOR = np.ones(5, dtype="<f4")


def in_session() -> Node:
    """Makes member two, in a session with one (who coordinates) and three."""
    return grouped()[0]


def grouped(*meanwhile: Message) -> tuple[Node, list[Action]]:
    """The same, and what follows from the GROUP; `meanwhile`: what two hears while that is on its way."""
    two = node(TWO, seeds=(endpoint(ONE), endpoint(THREE)))
    two.open(NOW)
    for key in (ONE, THREE):
        heard(two, hello(key), NOW)
    (mine,) = outbox(two.offer(VECTOR, rand(0), NOW), endpoint(ONE))
    for message in meanwhile:
        heard(two, message, NOW)
    readys = [mine, *(ready(key, ONE.public, base=INITIAL) for key in (ONE, THREE))]
    return two, heard(two, group_of(readys, ONE), NOW)


def test_a_member_that_ended_its_round_while_the_group_was_on_its_way_is_not_waited_for():
    _, actions = grouped(hello(THREE, round=1, counter=COUNTER + 100, base=INITIAL))
    assert only(actions, Failed).reason is Reason.SHARES_TIMEOUT


def test_a_member_that_is_ready_again_on_the_old_base_is_not_waited_for():
    """Its READY went elsewhere before the GROUP came: it never enters this session."""
    again = ready(THREE, TWO.public, base=INITIAL, counter=COUNTER + 100)
    failed = only(heard(in_session(), again, NOW), Failed)
    assert (failed.reason, failed.missing) == (Reason.SHARES_TIMEOUT, (THREE.public,))


def test_the_ready_that_made_the_group_ends_no_session():
    two = in_session()
    actions = heard(two, ready(THREE, TWO.public, nonce=1, base=INITIAL), NOW)
    assert not [action for action in actions if isinstance(action, Failed)]


def test_the_group_is_waited_for_while_others_may_still_be_in_a_session():
    """A member with all sums is READY again while the others' T_shares and T_sums run."""
    two = node(TWO, seeds=(), group_s=120.0)
    for _ in range(3):
        two._seeker._group_pace.observe(0.1)
    two.offer(VECTOR, rand(0), NOW)
    assert two._seeker.offer.wait.deadline == NOW + 15.0 + 15.0


@pytest.mark.parametrize(
    ("said", "sent"), [({"round": 1}, 0), ({}, 3)], ids=["of the round after", "of the same round and base"]
)
def test_a_newer_announcement_voids_a_ready_whose_round_its_owner_has_ended_and_no_other(said, sent):
    held = Matchmaker(ONE, 3)
    for key in (ONE, TWO, THREE):
        held.ready(ready(key, ONE.public, base=INITIAL), NOW)
    held.announce(announce(THREE, base=INITIAL, counter=COUNTER + 100, **said), NOW)
    assert len(held.close_groups(NOW)) == sent


def test_a_ready_is_not_taken_back_by_an_older_one_that_comes_late():
    held = Matchmaker(ONE, 3)
    for key in (ONE, TWO, THREE):
        held.ready(ready(key, ONE.public, base=INITIAL, counter=COUNTER + 100), NOW)
    held.withdraw(THREE.public, (1, COUNTER + 50))
    assert len(held.close_groups(NOW)) == 3
