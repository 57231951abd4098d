"""A node that returns when its swarm ends, or has ended, waits for nothing that cannot come."""

import pytest

from protocol.actions import Adopted, Completed, Failed, Reason
from protocol.swarm.meeting.discovery import JOIN_S
from protocol.swarm.node import Node
from protocol.wire.messages import BasePiece, Hello, Ready
from tests.parts import (
    COUNTER,
    NOW,
    PARAMETERS,
    announce,
    base_of,
    endpoint,
    heard,
    kinds,
    members,
    no_line,
    only,
    outbox,
    rand,
    roster_of,
    vector,
)
from tests.wires import INITIAL, ZERO, Wires, node

KEYS = members(5)
ONE, TWO, THREE, FOUR, FIVE = KEYS
LAST = 10
HELD = vector(7)
BETTER = base_of(HELD, 1)
OVER = Failed(Reason.SWARM_FINISHED, LAST, (), None)


def hello(key, round: int = LAST, **changes) -> Hello:
    changes.setdefault("base", INITIAL)
    return Hello(announce(key, round=round, **changes), bytes(16), False, PARAMETERS)


def back(*discovery: Hello, **changes) -> Node:
    """Makes member five after round 4 of 10, which has heard these since its return."""
    late = node(FIVE, seeds=(), last_round=LAST, **changes)
    late._state.round = 4
    late.open(NOW)
    for said in discovery:
        heard(late, said, NOW)
    return late


def offered(late: Node) -> list:
    return late.offer(ZERO, rand(1), NOW)


def failed(actions) -> list:
    return [action for action in actions if isinstance(action, Failed)]


def is_asked(actions) -> bool:
    return any(isinstance(said, Ready) for key in KEYS for said in outbox(actions, endpoint(key)))


# -- the others have ended the last round ----------------------------------------------------------------


def test_an_offer_that_comes_after_the_last_round_ends_at_once_as_that_round():
    late = back(hello(ONE), hello(TWO))
    ended = offered(late)

    assert failed(ended) == [OVER]
    assert not is_asked(ended)
    assert {news.announce.round for news in outbox(ended, endpoint(ONE))} == {LAST}
    assert (late.round, late.status.phase) == (LAST, "idle")


def test_an_offer_that_waits_for_a_group_ends_when_nobody_is_left_for_one():
    late = back(hello(ONE, 4), hello(TWO, 4))
    assert is_asked(offered(late))
    assert failed(heard(late, hello(ONE, counter=COUNTER + 1), NOW)) == [OVER]
    assert failed(heard(late, hello(TWO, counter=COUNTER + 1), NOW)) == []


def test_what_the_others_agreed_on_is_taken_first():
    late = back(hello(ONE, base=BETTER), hello(TWO, base=BETTER))
    assert failed(offered(late)) == []
    heard(late, no_line(BETTER), NOW)
    taken = heard(late, BasePiece(BETTER.digest, 0, HELD.tobytes()), NOW)
    assert "Adopted" in kinds(taken)
    assert failed(taken) == []
    ended = late.adopted(BETTER, NOW)

    assert failed(ended) == [OVER]
    last = outbox(ended, endpoint(ONE))[-1].announce
    assert (last.round, last.base) == (LAST, BETTER)


def test_a_better_base_that_can_not_be_had_is_waited_for_while_somebody_shows_it():
    late = back(hello(ONE, base=BETTER), hello(TWO))
    assert failed(offered(late)) == []
    assert failed(late.unreachable(endpoint(ONE), "connection refused", NOW)) == [OVER]
    assert late.base == INITIAL


@pytest.mark.parametrize("far", [hello(THREE, 9), hello(THREE, 0)])
def test_while_a_group_may_still_come_it_is_waited_for(far):
    late = back(hello(ONE), hello(TWO, 9), far)
    assert failed(offered(late)) == []
    assert failed(heard(late, hello(TWO, counter=COUNTER + 1), NOW)) == [OVER]


@pytest.mark.parametrize("flags", [{"leaving": True}, {"following": True}])
def test_who_will_not_be_in_a_group_makes_none(flags):
    late = back(hello(ONE), hello(TWO, 9), hello(THREE, 9))
    assert failed(offered(late)) == []
    assert failed(heard(late, hello(THREE, 9, counter=COUNTER + 1, **flags), NOW)) == [OVER]


def test_who_can_not_be_reached_makes_none():
    late = back(hello(ONE), hello(TWO, 9), hello(THREE, 9))
    offered(late)
    assert failed(late.unreachable(endpoint(THREE), "connection refused", NOW)) == [OVER]


def test_a_goodbye_after_the_last_round_tells_as_much():
    assert failed(offered(back(hello(ONE, leaving=True)))) == [OVER]


@pytest.mark.parametrize("said", [(), (hello(ONE, 9),), (hello(ONE, 9, leaving=True), hello(TWO, 9))])
def test_without_anybody_who_ended_the_last_round_nothing_is_over(said):
    assert failed(offered(back(*said))) == []


def test_nothing_is_over_before_everybody_was_asked():
    late = node(FIVE, seeds=(endpoint(TWO), endpoint(THREE)), last_round=LAST)
    late.open(NOW)
    heard(late, hello(ONE), NOW)
    assert failed(offered(late)) == []
    assert failed(late.tick(NOW + JOIN_S)) == [OVER]


def test_a_node_that_has_ended_later_rounds_goes_back_to_none():
    late = back(hello(ONE, 20), hello(TWO, 20))
    late._state.round = 12
    assert only(offered(late), Failed).round == 12


def test_a_round_without_an_offer_ends_as_the_last_one_too():
    late = back(hello(ONE, leaving=True), *(hello(key, 9) for key in (TWO, THREE, FOUR)))
    assert failed(late.follow(NOW)) == []
    ended = heard(late, hello(FOUR, 9, leaving=True, counter=COUNTER + 1), NOW)

    assert failed(ended) == [Failed(Reason.BUDGET_SPENT, LAST, (), None)]
    (news,) = outbox(ended, endpoint(TWO))
    assert news.announce.round == LAST


def test_those_that_linger_after_the_last_round_let_go_as_soon_as_it_is_over_for_who_came_back():
    wires = Wires(KEYS[:4], last_round=1)
    here = endpoint(ONE)
    wires.dropped = lambda sender, to, _message: here in (sender, to)
    wires.open().tick(JOIN_S).offer(TWO, THREE, FOUR).tick(JOIN_S)
    assert {where for where, _ in wires.ends(Completed)} == {endpoint(key) for key in (TWO, THREE, FOUR)}
    wires.dropped = lambda *_: False
    wires.carry_out(here, wires[ONE].reconnected(endpoint(TWO), wires.now))
    wires.quiet().offer(ONE)

    assert [where for where, _ in wires.ends(Adopted)] == [here]
    assert wires.ends(Failed) == [(here, Failed(Reason.SWARM_FINISHED, 1, (), None))]
    assert "Closed" in kinds(wires[ONE].close(wires.now))
    for key in (TWO, THREE, FOUR):
        assert "Closed" in kinds(wires[key].close(wires.now))


# -- nobody is there -------------------------------------------------------------------------------------

REFUSED, SILENT = "connection refused", "does not answer in time"


@pytest.mark.parametrize(
    ("why", "deserted"), [((REFUSED, REFUSED), True), ((REFUSED, SILENT), False), ((REFUSED,), False)]
)
def test_a_swarm_is_gone_where_every_process_is(why, deserted):
    one = node(ONE, seeds=(endpoint(TWO), endpoint(THREE)))
    one.open(NOW)
    for key, reason in zip((TWO, THREE), why, strict=False):
        one.unreachable(endpoint(key), reason, NOW)
    assert one.swarm_end.is_deserted is deserted


def test_a_node_that_was_named_nobody_is_not_deserted_others_come_to_it():
    one = node(ONE, seeds=())
    one.open(NOW)
    assert not one.swarm_end.is_deserted


@pytest.mark.parametrize("flags", [{}, {"leaving": True}])
def test_a_swarm_is_not_gone_where_anybody_was_heard_since_the_start(flags):
    one = node(ONE, seeds=(endpoint(TWO),))
    one.open(NOW)
    heard(one, hello(TWO, **flags), NOW)
    one.unreachable(endpoint(TWO), REFUSED, NOW)
    assert not one.swarm_end.is_deserted


def test_hearsay_is_not_somebody():
    one = node(ONE, seeds=(endpoint(TWO),))
    one.open(NOW)
    said = hello(TWO)
    one._discovery.news((announce(THREE, base=INITIAL),), NOW)
    one.unreachable(endpoint(TWO), REFUSED, NOW)
    assert not one.swarm_end.is_deserted, "three was not tried yet"
    one.unreachable(endpoint(THREE), REFUSED, NOW)
    assert one.swarm_end.is_deserted
    heard(one, said, NOW)
    assert not one.swarm_end.is_deserted


@pytest.mark.parametrize("answers", [True, False])
def test_a_tracker_is_nobody(answers):
    where = "127.0.0.1:9"
    one = node(ONE, seeds=(), tracker=where)
    (question,) = outbox(one.open(NOW), where)
    if answers:
        heard(one, roster_of(TWO, question.nonce), NOW)
        assert one.swarm_end.is_deserted
    one.unreachable(where, SILENT, NOW)
    assert not one.swarm_end.is_deserted, "nobody knows"
    one.unreachable(where, REFUSED, NOW)
    assert one.swarm_end.is_deserted
