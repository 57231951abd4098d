"""A node that returns when its swarm ends, or has ended, waits for nothing that cannot come."""

from dataclasses import replace

import pytest

from protocol.actions import Adopted, Completed, Failed, Reason
from protocol.swarm.meeting.discovery import JOIN_S
from protocol.swarm.node import Node
from protocol.wire.endpoints import of_key
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
ENDED = base_of(HELD, LAST)
OVER = Failed(Reason.SWARM_FINISHED, 5, (), None)


def hello(key, held=ENDED, **changes) -> Hello:
    return Hello(announce(key, base=held, **changes), bytes(16), False, PARAMETERS)


def back(*discovery: Hello, **changes) -> Node:
    """Makes member five after 4 rounds without one of the run's 10 sums, which has heard these since."""
    late = node(FIVE, seeds=(), sums=LAST, **changes)
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


def away(late: Node, *keys) -> list:
    """Lets these members say goodbye after the last sum; returns what follows."""
    gone = (hello(key, leaving=True, counter=COUNTER + 1) for key in keys)
    return [action for said in gone for action in heard(late, said, NOW)]


def test_a_base_may_end_the_run_before_its_most_sums_for_who_has_it():
    ended, late = replace(ENDED, generation=3), back()
    heard(late, hello(ONE, ended), NOW)
    assert (late.is_over, late.swarm_end.is_over) == (False, False)
    late.adopted(ended, NOW, over=True)
    assert (late.is_over, late.swarm_end.is_over) == (True, True)
    assert failed(offered(late)) == [OVER]


# -- the others' run is over -----------------------------------------------------------------------------


def test_an_offer_that_comes_after_the_last_sum_ends_at_once():
    late = back(hello(ONE, leaving=True), hello(TWO, leaving=True))
    ended = offered(late)

    assert failed(ended) == [OVER]
    assert not is_asked(ended)
    assert (late.round, late.base, late.status.phase) == (5, INITIAL, "idle")


def test_no_claim_of_others_raises_what_this_node_counts():
    """They claim rounds and sums without end; the run of a node without their base goes on where it was."""
    endless = {"round": 2**40, "held": base_of(HELD, 2**40)}
    late = back(hello(ONE, leaving=True, **endless), hello(TWO, INITIAL), hello(THREE, INITIAL))

    assert failed(offered(late)) == []
    assert (late.round, late.base) == (4, INITIAL)


def test_an_offer_that_waits_for_a_group_ends_when_nobody_is_left_for_one():
    late = back(hello(ONE, INITIAL), hello(TWO, INITIAL))
    assert is_asked(offered(late))
    assert failed(away(late, ONE)) == [OVER]
    assert failed(away(late, TWO)) == []


def test_what_the_others_agreed_on_is_taken_first():
    late = back(hello(ONE), hello(TWO))
    assert failed(offered(late)) == []
    heard(late, no_line(ENDED), NOW)
    taken = heard(late, BasePiece(ENDED.digest, 0, HELD.tobytes()), NOW)
    assert "Adopted" in kinds(taken)
    assert failed(taken) == []
    ended = late.adopted(ENDED, NOW)

    assert failed(ended) == [OVER]
    last = outbox(ended, endpoint(ONE))[-1].announce
    assert (last.round, last.base) == (5, ENDED)


def test_with_the_last_base_an_offer_is_over_however_many_are_behind():
    late = back(*(hello(key, INITIAL) for key in (ONE, TWO, THREE)))
    late._state.base = ENDED
    assert failed(offered(late)) == [OVER]


def test_a_better_base_that_can_not_be_had_is_waited_for_while_somebody_shows_it():
    late = back(hello(ONE), hello(TWO, INITIAL))
    assert failed(offered(late)) == []
    assert failed(late.unreachable(endpoint(ONE), "connection refused", NOW)) == [OVER]
    assert late.base == INITIAL


FOLLOWS = hello(THREE, INITIAL, counter=COUNTER + 1, following=True)


@pytest.mark.parametrize(
    "ends",
    [
        lambda late: away(late, TWO),
        lambda late: heard(late, FOLLOWS, NOW),
        lambda late: late.unreachable(endpoint(THREE), "connection refused", NOW),
    ],
    ids=["left", "follows", "cannot be reached"],
)
def test_a_group_that_may_still_come_is_waited_for_until_one_that_it_needs_is_in_none(ends):
    late = back(hello(ONE, leaving=True), hello(TWO, INITIAL), hello(THREE, INITIAL))
    assert failed(offered(late)) == []
    assert failed(ends(late)) == [OVER]


@pytest.mark.parametrize(
    "said", [(), (hello(ONE, INITIAL),), (hello(ONE, INITIAL, leaving=True), hello(TWO, INITIAL))]
)
def test_without_anybody_who_had_the_last_sum_nothing_is_over(said):
    assert failed(offered(back(*said))) == []


def test_nothing_is_over_before_everybody_was_asked():
    late = node(FIVE, seeds=(endpoint(TWO), endpoint(THREE)), sums=LAST)
    late.open(NOW)
    heard(late, hello(ONE, leaving=True), NOW)
    assert failed(offered(late)) == []
    assert failed(late.tick(NOW + JOIN_S)) == [replace(OVER, round=1)]


def test_an_offer_ends_when_so_many_budgets_are_spent_that_no_group_can_form_any_more():
    """One follows: two are too few for a group of three. Who was named and not met yet may still come."""
    late = back(hello(ONE, INITIAL), hello(TWO, INITIAL))
    assert failed(offered(late)) == []
    follows = hello(TWO, INITIAL, counter=COUNTER + 1, following=True)
    assert failed(heard(late, follows, NOW)) == [replace(OVER, reason=Reason.ALL_SPENT)]

    for where in ({"seeds": (endpoint(FOUR),)}, {"tracker": "127.0.0.1:9"}):
        waits = node(FIVE, sums=LAST, **{"seeds": (), **where})
        waits.open(NOW)
        for said in (hello(ONE, INITIAL), hello(TWO, INITIAL, following=True)):
            heard(waits, said, NOW)
        waits.tick(NOW + JOIN_S)
        assert failed(offered(waits)) == []


def test_a_round_without_an_offer_is_over_too():
    late = back(hello(ONE, leaving=True), *(hello(key, INITIAL) for key in (TWO, THREE, FOUR)))
    assert failed(late.follow(NOW)) == []
    ended = away(late, FOUR)

    assert failed(ended) == [OVER]


def test_those_that_linger_after_the_last_round_let_go_as_soon_as_it_is_over_for_who_came_back():
    wires = Wires(KEYS[:4], sums=1)
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
    ("named", "said", "why", "deserted"),
    [
        pytest.param((TWO, THREE), (), (REFUSED, REFUSED), True, id="every process is gone"),
        pytest.param((TWO, THREE), (), (REFUSED, SILENT), False, id="one is silent"),
        pytest.param((TWO, THREE), (), (REFUSED,), False, id="one was not tried yet"),
        pytest.param((), (), (), False, id="nobody was named: others come to it"),
        pytest.param((TWO,), (hello(TWO),), (REFUSED,), False, id="one was heard since the start"),
        pytest.param((TWO,), (hello(TWO, leaving=True),), (REFUSED,), False, id="one has left since"),
    ],
)
def test_a_swarm_is_gone_where_every_process_is_and_nobody_was_heard(named, said, why, deserted):
    one = node(ONE, seeds=tuple(endpoint(key) for key in named))
    one.open(NOW)
    for message in said:
        heard(one, message, NOW)
    for key, reason in zip((TWO, THREE), why, strict=False):
        one.unreachable(endpoint(key), reason, NOW)
    assert one.swarm_end.is_deserted is deserted


def test_a_swarm_by_keys_is_never_gone_who_starts_first_waits_for_the_others():
    """A relay that is away refuses connections, and so it says nothing of the peers."""
    one = node(ONE, endpoint=of_key(ONE.public), seeds=(of_key(TWO.public), of_key(THREE.public)))
    one.open(NOW)
    for key in (TWO, THREE):
        one.unreachable(of_key(key.public), REFUSED, NOW)
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
