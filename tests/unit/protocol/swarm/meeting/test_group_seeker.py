"""One READY at a time, and only the GROUP that answers it."""

import math
from dataclasses import replace

import pytest

from protocol.actions import Reason
from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import of_names
from protocol.swarm.meeting.group_seeker import MAX_REGROUPED, GroupSeeker, Phase, check_group
from protocol.swarm.meeting.room import APART_S
from protocol.wire.endpoints import of_key
from protocol.wire.ids import NO_ELECTORS, RESIGNED
from protocol.wire.messages import Announce, Group, Ready
from tests.parts import (
    NOW,
    announce,
    base,
    endpoint,
    group,
    group_of,
    members,
    patience,
    rand,
    ready,
    resigned,
    settings,
    state,
    stranger,
    vector,
)

KEYS = members(4)
ME, SECOND, THIRD, FOURTH = KEYS
COORDINATOR = SECOND.public


def seeking(**changes) -> GroupSeeker:
    own, where = settings(ME, **changes), state()
    return GroupSeeker(own, where, patience(own, where))


def seeker(**changes) -> GroupSeeker:
    found = seeking(**changes)
    found.begin(vector(0), rand(0), 0.0, NOW)
    return found


def asked(**changes) -> tuple[GroupSeeker, Group]:
    """Returns a seeker whose READY is out, and the GROUP that answers it: three with the same electors."""
    found = seeker(**changes)
    mine = found.ask(COORDINATOR, NOW)
    return found, group_of([mine, *(alike(mine, key) for key in (SECOND, THIRD))], SECOND)


def alike(mine: Ready, key: NodeKey, **changes) -> Ready:
    """Makes another member's READY with the same electors as this node's."""
    same = {"electors": mine.electors, "weak": mine.weak, **changes}
    return ready(key, COORDINATOR, **same)


# -- the one READY -------------------------------------------------------------------------------------


def test_an_offer_waits_for_t_group():
    found = seeker()

    assert found.deadline == NOW + 120
    assert not found.expired(NOW + 119)
    assert found.expired(NOW + 120)
    assert (found.offer, found.deadline) == (None, None)
    assert not found.expired(NOW + 121)


def test_an_offer_waits_for_others_that_may_still_be_in_a_session_within_the_cap():
    found = seeking(group_s=20.0)
    for _ in range(3):
        found.begin(vector(0), rand(0), 0.0, NOW)
        found.ask(COORDINATOR, NOW)
        found.found(NOW)
    deadlines = []
    for need_s in (0.0, 15.0, 30.0):
        found.begin(vector(0), rand(0), need_s, NOW)
        deadlines.append(found.deadline - NOW)
        assert found.expired(found.deadline)

    assert deadlines == [10.0, 15.0, 20.0]


@pytest.mark.parametrize(("trained_s", "waits_s"), [(2.0, 10.0), (8.0, 16.0), (15.0, 20.0)])
def test_an_offer_waits_for_others_that_train_for_twice_as_long_within_the_cap(trained_s, waits_s):
    found = seeking(group_s=20.0)
    for _ in range(3):
        found.begin(vector(0), rand(0), 0.0, NOW)
        found.ask(COORDINATOR, NOW)
        found.found(NOW)
    found.ended(NOW)
    found.begin(vector(0), rand(0), 0.0, NOW + trained_s)

    assert found.deadline == NOW + trained_s + waits_s


@pytest.mark.parametrize("is_accepted", [False, True])
def test_a_void_try_waits_for_another_and_one_that_expires_is_over(is_accepted):
    found = seeker()
    assert found._course.phase is Phase.WAITING
    for end, phase in ((found.void, Phase.WAITING), (lambda: found.expired(NOW + 120), Phase.IDLE)):
        mine = found.ask(COORDINATOR, NOW)
        assert found._course.phase is Phase.ASKED
        if is_accepted:
            found.accepted(mine.nonce, NOW)
            assert found._course.phase is Phase.ACCEPTED
        end()
        assert found._course.phase is phase


def test_another_coordinator_is_to_answer_as_well():
    found = seeker()
    found.accepted(found.ask(COORDINATOR, NOW).nonce, NOW)
    for key in (THIRD.public, FOURTH.public):
        found.ask(key, NOW)
        assert found.deadline < NOW + 120
        assert found.silent(found.deadline) == key


def test_each_try_has_a_nonce_and_an_ephemeral_key_of_its_own():
    found = seeker()
    first, second = found.ask(COORDINATOR, NOW), found.ask(COORDINATOR, NOW)

    assert first.nonce != second.nonce
    assert first.ephemeral != second.ephemeral
    assert first.announce.counter < second.announce.counter
    assert not found.holds(first.nonce)
    assert found.holds(second.nonce)


def test_a_coordinator_that_does_not_answer_in_time_is_silent():
    found = seeker()
    assert found.silent(NOW) is None
    found.ask(COORDINATOR, NOW)
    assert found.deadline == NOW + 5

    assert found.silent(NOW + 4.9) is None
    assert found.silent(NOW + 5) == COORDINATOR
    ready = found.offer.current.ready
    assert (found.unanswered(NOW + 4.9), found.unanswered(NOW + 5)) == (None, ready)
    assert (found.silent(NOW + 9.9), found.silent(NOW + 10)) == (None, COORDINATOR)


def test_a_group_is_overdue_after_a_while_that_doubles_with_each_turn():
    found = seeker()
    assert found.overdue_at(0) is None
    mine = found.ask(COORDINATOR, NOW)
    assert found.overdue_at(0) == NOW + 5, "no answer"
    found.accepted(mine.nonce, NOW + 1)
    assert [found.overdue_at(turn) - NOW - 1 for turn in (0, 1, 2)] == [8, 16, 32]
    assert found.overdue_at(100) == found.deadline, "its T_group is over"
    assert found.overdue_at(0, is_over=True) == NOW, "at once"
    mine = found.ask(COORDINATOR, NOW, (THIRD.public,))
    found.accepted(mine.nonce, NOW + 1)
    assert found.overdue_at(0) == NOW + 1 + 8 + APART_S, "the coordinator may keep two apart"
    found.ask(found._settings.key.public, NOW)
    assert found.overdue_at(0) is None, "this node coordinates itself"


def test_a_coordinator_that_answered_is_not_silent():
    found = seeker()
    mine = found.ask(COORDINATOR, NOW)
    found.accepted(mine.nonce, NOW + 1)
    found.accepted(mine.nonce, NOW + 2)

    assert found.silent(NOW + 100) is None
    assert (found.coordinator, found.deadline) == (COORDINATOR, NOW + 120)


def test_an_unspent_offer_waits_again_a_few_times_within_its_t_group():
    found = seeker()
    for _ in range(MAX_REGROUPED):
        found.ask(COORDINATOR, NOW)
        offer, _ = found.found(NOW + 1)
        assert found.again(Reason.JOINS_TIMEOUT, NOW + 2)
        assert (found.offer, found.coordinator, found.deadline) == (offer, None, NOW + 120)
    found.ask(COORDINATOR, NOW)
    found.found(NOW + 1)

    assert not found.again(Reason.JOINS_TIMEOUT, NOW + 2)
    assert found.offer is None


def test_an_offer_whose_session_had_begun_waits_again_only_if_its_owner_waits():
    found = seeker()
    found.ask(COORDINATOR, NOW)
    found.found(NOW + 1)
    assert not found.again(Reason.SHARES_TIMEOUT, NOW + 2)

    patient = seeker(wait_each_s=math.inf)
    for number in range(MAX_REGROUPED + 2):
        patient.ask(COORDINATOR, NOW)
        patient.found(NOW + 1)
        assert patient.again(Reason.SHARES_TIMEOUT, NOW + 200 * number), "also after its T_group"


def test_an_offer_that_is_spent_is_let_go_and_waits_for_nothing():
    found = seeker(wait_each_s=math.inf)
    assert not found.again(Reason.JOINS_TIMEOUT, NOW)
    found.ask(COORDINATOR, NOW)
    found.found(NOW + 1)
    found.spent()

    assert not found.again(Reason.JOINS_TIMEOUT, NOW + 2)
    assert found.offer is None


def test_an_offer_whose_t_group_is_over_does_not_wait_again():
    found = seeker()
    found.ask(COORDINATOR, NOW)
    found.found(NOW + 1)

    assert not found.again(Reason.JOINS_TIMEOUT, NOW + 120)
    assert found.again(Reason.JOINS_TIMEOUT, NOW + 119)


def test_an_answer_to_another_ready_is_refused():
    found = seeker()
    with pytest.raises(RemoteProtocolError, match="not the current one"):
        found.accepted(bytes(16), NOW)
    found.ask(COORDINATOR, NOW)
    with pytest.raises(RemoteProtocolError, match="not the current one"):
        found.accepted(bytes(16), NOW)


def test_without_an_offer_nothing_is_asked_accepted_or_found():
    found = seeking()
    found.void()

    assert (found.coordinator, found.silent(NOW), found.holds(bytes(16))) == (None, None, False)
    for call in (
        lambda: found.ask(COORDINATOR, NOW),
        lambda: found.accepted(bytes(16), NOW),
        lambda: found.found(NOW),
    ):
        with pytest.raises(RemoteProtocolError, match="no offer"):
            call()


def test_a_void_ready_is_good_for_no_group():
    found, answer = asked()
    found.void()

    with pytest.raises(RemoteProtocolError, match="was not asked"):
        found.check(answer, 3)
    with pytest.raises(RemoteProtocolError, match="without a READY"):
        found.found(NOW)


# -- what a GROUP must be ------------------------------------------------------------------------------


def test_a_group_that_its_coordinator_did_not_sign_or_was_not_asked_for_is_refused():
    found, answer = asked()
    with pytest.raises(RemoteProtocolError, match="was not asked"):
        found.check(resigned(answer, THIRD, coordinator=THIRD.public), 3)
    with pytest.raises(RemoteProtocolError, match="bad group signature"):
        found.check(resigned(answer, THIRD), 3)


def test_in_a_swarm_by_keys_a_group_with_an_endpoint_that_is_not_its_members_own_is_refused():
    found = seeker(endpoint=of_key(ME.public))
    mine = found.ask(COORDINATOR, NOW)
    others = [alike(mine, key, endpoint=of_key(key.public)) for key in (SECOND, THIRD)]
    found.check(group_of([mine, *others], SECOND), 3)
    elsewhere = alike(mine, THIRD, endpoint=endpoint(THIRD))
    with pytest.raises(RemoteProtocolError, match="announces an endpoint that is not its own"):
        found.check(group_of([mine, others[0], elsewhere], SECOND), 3)


def test_a_group_without_the_current_ready_is_refused():
    found, answer = asked()
    found.ask(COORDINATOR, NOW)
    with pytest.raises(RemoteProtocolError, match="without this node's current READY"):
        found.check(answer, 3)


def test_a_group_with_a_quorum_of_electors_is_joined_however_many_are_known():
    for named in (KEYS[:3], KEYS, KEYS[1:3]):
        found, answer = asked(electorate=of_names(endpoint(key) for key in named))
        found.check(answer, 64)


FEW = of_names(f"127.0.0.1:{port}" for port in range(5))
"""Electors that are none of these nodes."""


def test_a_group_without_a_quorum_of_electors_is_refused_however_few_are_known():
    found, answer = asked(electorate=FEW)
    with pytest.raises(RemoteProtocolError, match="3 of 3 known members that offer: no quorum of electors"):
        found.check(answer, 3)


def test_where_all_are_willing_a_group_without_a_quorum_is_more_than_half_of_the_known():
    found, answer = asked(electorate=FEW)
    willing = [resigned(one, key, weak=True) for one, key in zip(answer.readys, KEYS, strict=False)]
    found.offer.current = replace(found.offer.current, ready=willing[0])
    found.check(group_of(willing, SECOND), 5)
    with pytest.raises(RemoteProtocolError, match="3 of 6 known members that offer: no quorum"):
        found.check(group_of(willing, SECOND), 6)
    with pytest.raises(RemoteProtocolError, match="no quorum"):
        found.check(group_of([*willing[:2], answer.readys[2]], SECOND), 3)


def test_whose_owner_forbids_it_joins_no_group_without_a_quorum():
    found, answer = asked(electorate=FEW, weak=False)
    assert not answer.readys[0].weak
    willing = [resigned(one, key, weak=True) for one, key in zip(answer.readys, KEYS, strict=False)]
    found.offer.current = replace(found.offer.current, ready=willing[0])
    with pytest.raises(RemoteProtocolError, match="no quorum"):
        found.check(group_of(willing, SECOND), 3)


def test_where_owners_named_different_electors_nobody_waits_for_a_quorum_of_the_first_base():
    found, answer = asked()
    other = alike(answer.readys[0], THIRD, electors=FEW.digest, weak=False)
    found.check(group_of([*answer.readys[:2], other], SECOND), 5)
    with pytest.raises(RemoteProtocolError, match="no quorum"):
        found.check(group_of([*answer.readys[:2], other], SECOND), 6)


def test_a_ready_says_whom_its_node_counts_with_and_whom_it_gave_up():
    lost = b"127.0.0.1:1"
    own, where = settings(ME, electorate=FEW), state(gone=frozenset((lost, b"127.0.0.1:0")))
    found = GroupSeeker(own, where, patience(own, where))
    found.begin(vector(0), rand(0), 0.0, NOW)
    mine = found.ask(COORDINATOR, NOW)
    assert (mine.electors, mine.weak, mine.gone) == (FEW.digest, False, (b"127.0.0.1:0", lost))

    own, where = settings(ME, electorate=None), state(held=base(1))
    unnamed = GroupSeeker(own, where, patience(own, where))
    unnamed.begin(vector(0), rand(0), 0.0, NOW)
    mine = unnamed.ask(COORDINATOR, NOW)
    assert (mine.electors, mine.weak) == (NO_ELECTORS, True)


def excusing(excused: Announce) -> Group:
    whole = group(KEYS[:3])
    return group_of(whole.readys, ME, excused=(excused,))


def test_who_is_excused_said_so_in_this_swarm_and_on_this_anchor():
    check_group(excusing(announce(FOURTH, open=(RESIGNED,), base=base(1))), group(KEYS[:3]).readys[0])
    for changes in ({"task": "other"}, {"parameters": bytes(32)}, {"base": base(1, anchor=1)}):
        refused(excusing(announce(FOURTH, open=(RESIGNED,), **changes)), "of another swarm or anchor")
    forged = resigned(announce(FOURTH, open=(RESIGNED,)), stranger())
    refused(excusing(forged), "bad announce signature")


def refused(broken: Group, match: str, mine: int = 0) -> None:
    own = next(one for one in group(KEYS).readys if one.key == KEYS[mine].public)
    with pytest.raises(RemoteProtocolError, match=match):
        check_group(broken, own)


def with_last(last: Ready) -> Group:
    """Makes a group of four with another READY of its last member."""
    whole = group(KEYS)
    return replace(whole, readys=(*whole.readys[:3], last))


def other(**changes) -> Group:
    """Makes a group with a validly signed announcement of other content by its last member."""
    return with_last(ready(FOURTH, ME.public, **changes))


LAST = group(KEYS).readys[3]
DIFFERENT = "different tasks, parameters, bases or coordinators"
BROKEN = {
    "a member twice": (with_last(group(KEYS).readys[2]), "not distinct"),
    "out of key order": (replace(group(KEYS), readys=group(KEYS).readys[::-1]), "not in key order"),
    "too few": (replace(group(KEYS), readys=group(KEYS).readys[:2]), "a GROUP of 2; 3 to 64"),
    "two tasks": (other(task="other"), DIFFERENT),
    "two parameter sets": (other(parameters=bytes(32)), DIFFERENT),
    "two bases": (other(base=base(1)), DIFFERENT),
    "two coordinators": (with_last(ready(FOURTH, SECOND.public)), DIFFERENT),
    "one that left": (other(leaving=True), "has left"),
    "a follower": (other(following=True), "follows: it offers nothing"),
    "a key of small order": (
        with_last(resigned(LAST, FOURTH, ephemeral=bytes(32))),
        "unusable ephemeral key",
    ),
    "a forged announcement": (
        with_last(resigned(LAST, FOURTH, announce=resigned(LAST.announce, stranger()))),
        "bad announce signature",
    ),
    "a forged READY": (with_last(resigned(LAST, stranger())), "bad ready signature"),
}


@pytest.mark.parametrize(("broken", "match"), BROKEN.values(), ids=BROKEN)
def test_a_broken_group_is_refused(broken, match):
    refused(broken, match)


def test_a_group_larger_than_the_protocol_allows_is_refused():
    many = members(65)
    with pytest.raises(RemoteProtocolError, match="a GROUP of 65; 3 to 64"):
        check_group(group(many), ready(many[0], many[0].public))


def test_whom_to_leave_out_is_said_again_when_it_changes_and_what_is_taken_back_is_refused_no_more():
    found, group = asked()
    third, nonce = THIRD.public, found.offer.current.ready.nonce
    assert found.asks_anew(()) is None
    assert found.asks_anew((third,)) == nonce
    assert found.asks_anew((third,)) is None
    assert found.offer.current.refused == (), "its coordinator may have closed a group before it heard"
    assert found.asks_anew(()) == nonce

    found = seeker()
    found.ask(COORDINATOR, NOW, (third, FOURTH.public))
    found.asks_anew((FOURTH.public,))
    assert found.offer.current.refused == (FOURTH.public,)
    assert seeking().asks_anew((third,)) is None
    assert group.coordinator == COORDINATOR
