"""Runs of steps: one group and one JOIN of each member for several sums, and every way in which they end."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from protocol.actions import Completed, Failed, Healed, Spend, Vote
from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.masked.layout import ALL_TO_ALL_BYTES
from protocol.aggregation.masked.machine import DoubleMasked
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.aggregation.masked.unmasking import check_result
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.swarm.meeting.group_seeker import check_step
from protocol.swarm.meeting.passing_on import AFTER_S
from protocol.swarm.session_factory import steps_of
from protocol.swarm.votes.voting import Voting
from protocol.wire import codec
from protocol.wire.ids import NO_SID
from protocol.wire.masked_messages import Join, Masked, Release
from protocol.wire.messages import Group, Hello
from tests.parts import NOW, base, endpoint, group_of, members, ready, settings
from tests.wires import Wires

KEYS = members(4)
ROUND = 5
STEPS = {
    "sums": 2 * ROUND,
    "by_steps": True,
    "run_steps": ROUND,
    "masked": MaskedSettings(None, None, 0, honest=1),
    "shares": ShareSettings("seed", None, 100.0),
}


class Runs(Wires):
    """Wires that count what is sent."""

    def __init__(self, keys=KEYS, **changes: Any) -> None:
        super().__init__(keys, **{**STEPS, **changes})
        self.sent: Counter[type] = Counter()
        self.actions: list[Any] = []

    def carry_out(self, where, actions) -> None:
        for action in actions:
            self.actions.append(action)
            for message in getattr(action, "messages", ()):
                self.sent[type(message)] += 1
            super().carry_out(where, [action])


def swarm(**changes: Any) -> Runs:
    wires = Runs(**changes)
    wires.open()
    return wires


def generations(wires: Wires, keys=KEYS) -> set[int]:
    return {wires[key].base.generation for key in keys}


def test_nobody_announces_a_step_within_a_run():
    wires = swarm().offer()
    before = wires.sent[Hello]
    for _ in range(ROUND - 2):
        wires.offer()
    assert wires.sent[Hello] == before
    wires.offer()
    assert wires.sent[Hello] > before


def test_each_step_has_a_session_a_certificate_and_a_strong_base_of_its_own():
    wires = swarm()
    for _ in range(ROUND):
        wires.offer()
    where = endpoint(KEYS[0])
    ends = [end for at, end in wires.ends(Completed) if at == where]

    assert len({end.sid for end in ends}) == len({end.certificate.secrets for end in ends}) == ROUND
    assert [end.group.step for end in ends] == list(range(ROUND))
    assert [end.round for end in ends] == list(range(1, ROUND + 1))
    assert [end.line.anchor for end in ends] == list(range(1, ROUND + 1))
    deals = [dealt.deal for end in ends for dealt in end.certificate.dealt]
    assert len({deal.mask_key for deal in deals}) == len({deal.commitment for deal in deals}) == ROUND * 4
    cast = [action for action in wires.actions if isinstance(action, Vote)]
    assert {(each.vote.anchor, each.goes_on) for each in cast} == {(n, n < ROUND - 1) for n in range(ROUND)}
    votes = [action.vote for action in cast]
    assert len({vote.sid for vote in votes}) == ROUND
    assert {vote.anchor for vote in votes} == set(range(ROUND))


def test_every_step_is_spent_before_its_vector_leaves():
    wires = swarm()
    for _ in range(ROUND):
        wires.offer()
    spent = [action.sid for action in wires.actions if isinstance(action, Spend)]
    assert Counter(Counter(spent).values()) == {len(KEYS): ROUND}


@pytest.mark.parametrize("step", [1, ROUND - 1])
def test_a_member_that_leaves_ends_the_run_and_the_others_go_on_without_it(step):
    wires = swarm()
    for _ in range(step):
        wires.offer()
    gone, others = KEYS[3], KEYS[:3]
    wires.carry_out(endpoint(gone), wires[gone].leave(wires.now))
    wires.quiet()
    wires.dropped = lambda sender, to, _message: endpoint(gone) in (sender, to)
    assert all(wires[key]._state.run == NO_SID for key in others)
    before = wires.sent[Group]
    wires.offer(*others)

    assert wires.sent[Group] > before
    assert generations(wires, others) == {step + 1}


@pytest.mark.parametrize("step", [1, ROUND - 1])
def test_a_member_whose_link_breaks_between_two_steps_ends_the_run(step):
    wires = swarm()
    for _ in range(step):
        wires.offer()
    gone, others = KEYS[3], KEYS[:3]
    wires.dropped = lambda sender, to, _message: endpoint(gone) in (sender, to)
    for key in others:
        wires.carry_out(endpoint(key), wires[key].unreachable(endpoint(gone), "gone", wires.now))
    wires.quiet().offer(*others)

    assert generations(wires, others) == {step + 1}


@pytest.mark.parametrize("step", [0, ROUND - 2])
@pytest.mark.parametrize("all_to_all_bytes", [0, ALL_TO_ALL_BYTES])
def test_a_member_that_lacks_a_result_gets_it_from_who_is_in_the_next_step(step, all_to_all_bytes):
    """No RELEASE of this step reaches it. A vector of the next step shows it that the others have finished.

    If it gets none (one member adds up this short vector), it changes the view, and they tell it.
    """
    wires = swarm(masked=MaskedSettings(None, None, all_to_all_bytes, honest=1))
    for _ in range(step):
        wires.offer()
    late, others = KEYS[3], KEYS[:3]
    wires.dropped = lambda _sender, to, message: to == endpoint(late) and isinstance(message, Release)
    wires.offer()
    assert generations(wires, others) == {step + 1}
    assert wires[late].base.generation == step
    wires.dropped = lambda *_: False
    wires.offer(*others)
    if not all_to_all_bytes:
        wires.tick(AFTER_S, late)  # all have joined: it passes no GROUP on
        wires.tick(wires[late].deadline - wires.now, late)
    assert wires[late].base.generation == step + 1
    wires.offer(late)

    assert generations(wires) == {step + 2}
    assert not wires.ends(Failed)
    assert not wires.ends(Healed)


def torn(step: int) -> Runs:
    """All members have voted in this step, and only the first one learns the result. Then it is cut off."""
    wires = swarm()
    for _ in range(step):
        wires.offer()
    lucky, others = KEYS[0], KEYS[1:]
    wires.dropped = lambda _sender, to, message: (
        to != endpoint(lucky) and isinstance(message, Release | Hello)
    )
    wires.offer()
    wires.dropped = lambda sender, to, _message: endpoint(lucky) in (sender, to)
    for key in others:
        wires.carry_out(endpoint(key), wires[key].unreachable(endpoint(lucky), "gone", wires.now))
    wires.quiet().tick(100.0, *others)
    assert generations(wires, [lucky]) == {step + 1}
    assert generations(wires, others) == {step}
    return wires


@pytest.mark.parametrize("step", [0, 2, ROUND - 1])
def test_who_voted_in_a_step_makes_no_other_strong_base_in_its_place(step):
    """A quorum of the electors is left, but their votes are bound: once they meet again, one base is left."""
    wires = torn(step)
    others = KEYS[1:]
    wires.offer(*others).tick(3.0, *others)
    assert all(len(wires[key]._state.votes) == 1 for key in others)
    assert not any(wires[key].base.is_strong and wires[key].base.generation > step for key in others)
    wires.dropped = lambda *_: False
    for key in others:
        wires.carry_out(endpoint(key), wires[key].reconnected(endpoint(KEYS[0]), wires.now))
    wires.quiet().tick(3.0).tick(3.0)

    assert len({wires[key].base for key in KEYS}) == 1
    assert wires[KEYS[0]].base.generation == step + 1
    assert not any(wires[key]._state.votes for key in KEYS)


def test_planted_fault_a_vote_that_does_not_bind_lets_them_fork_the_run(monkeypatch):
    monkeypatch.setattr(Voting, "cast", lambda *_: None)
    wires = torn(2)
    wires.offer(*KEYS[1:])

    assert {(wires[key].base.generation, wires[key].base.is_strong) for key in KEYS} == {(3, True)}
    assert len({wires[key].base.digest for key in KEYS} | {wires[key].base.sid for key in KEYS}) > 2


def test_a_member_that_comes_back_without_its_memory_ends_the_run():
    wires = swarm().offer().offer()
    again, others = KEYS[3], KEYS[:3]
    anew = replace(wires[again]._state.announce(wires[again]._settings), instance=b"i" * 16, run=NO_SID)
    for key in others:
        assert wires[key]._state.run != NO_SID
        wires[key]._runs.heard(anew, False, None)
        assert wires[key]._state.run == NO_SID


def test_a_late_word_from_before_the_group_ends_no_run():
    wires = swarm()
    early = wires[KEYS[3]]._state.announce(wires[KEYS[3]]._settings)
    wires.offer().offer()
    late = replace(early, counter=early.counter + 100)

    assert (late.run, late.base.generation, late.round) == (NO_SID, 0, 0)
    assert not wires[KEYS[0]]._runs.heard(late, False, None)
    assert wires[KEYS[0]]._state.run != NO_SID


def test_who_has_left_the_run_during_a_step_is_not_waited_for_in_the_next():
    wires = swarm().offer()
    leaving, others = KEYS[3], KEYS[:3]
    left = replace(wires[leaving]._state.announce(wires[leaving]._settings), run=NO_SID)
    held: list[Any] = []
    wires.dropped = lambda _sender, _to, message: isinstance(message, Release) and not held.append(message)
    wires.offer()
    for key in others:
        assert not wires[key]._runs.heard(left, False, wires[key]._machine)
    wires.dropped = lambda *_: False
    for release in held:
        for key in KEYS:
            if key.public != release.head.sender:
                wires.hand(
                    endpoint(key), release, endpoint(next(k for k in KEYS if k.public == release.head.sender))
                )
    wires.quiet()

    assert generations(wires) == {2}
    assert all(wires[key]._state.run == NO_SID for key in others)


def test_a_follower_leaves_the_run():
    wires = swarm().offer()
    wires.follow(KEYS[3])

    assert {wires[key]._state.run for key in KEYS} == {NO_SID}


def test_a_base_from_elsewhere_ends_the_run():
    wires = swarm().offer()
    one = wires[KEYS[0]]
    one.adopted(base(2, 7, anchor=2), NOW)

    assert one._state.run == NO_SID
    assert one._runs.between is None


# -- which groups take more than one step --------------------------------------------------------------------


def taken(group: Group, **changes: Any) -> int:
    node = swarm()[KEYS[0]]
    own = settings(KEYS[0], **{**STEPS, **changes})
    return steps_of(group, own, node._voting.ballot(group))


def group_at(generation: int = 0, members_=KEYS, **about: Any) -> Group:
    there = base(generation, 1) if generation else None
    one = swarm()[KEYS[0]]
    electors = one._state.electorate(one._settings).digest
    held = {"base": there or one.base}
    readys = [ready(key, KEYS[0].public, electors=electors, **held, **about) for key in members_]
    return group_of(readys, KEYS[0])


def test_a_group_takes_the_steps_that_its_round_still_has():
    assert taken(group_at()) == ROUND
    assert [steps_of(group_at(g), settings(KEYS[0], **STEPS), object()) for g in range(1, 7)] == [
        4,
        3,
        2,
        1,
        5,
        4,
    ]


def test_a_group_takes_one_step_where_it_may_take_no_more():
    assert taken(group_at(), masked=None) == 1
    assert taken(group_at(), masked=MaskedSettings(None, None, 0)) == 1  # not all or none
    assert taken(group_at(members_=KEYS[:3])) == 1  # shares
    bound = group_at(open=(b"s" * 32,))
    assert taken(bound) == steps_of(bound, settings(KEYS[0], **STEPS), object()) == 1  # somebody's vote is
    assert steps_of(group_at(), settings(KEYS[0], **STEPS), None) == 1  # no quorum
    assert steps_of(group_at(), settings(KEYS[0], **{**STEPS, "run_steps": 1000}), object()) == 32


def test_a_run_has_no_step_after_its_last():
    wires = swarm()
    for _ in range(ROUND):
        wires.offer()
    with pytest.raises(LocalProtocolError, match="no run"):
        wires[KEYS[0]]._runs.next(wires[KEYS[0]]._paces)


def test_a_machine_that_has_not_started_has_no_keys_to_go_on_with():
    wires = swarm()
    held: list[Any] = []
    wires.dropped = lambda _s, _t, message: isinstance(message, Join | Masked) and not held.append(message)
    wires.offer()
    machine = wires[KEYS[0]]._machine
    assert isinstance(machine, DoubleMasked)
    assert machine.steps_left == ROUND - 1
    fresh = DoubleMasked(machine.participant, machine._scheme, ROUND)
    with pytest.raises(LocalProtocolError, match="no further step"):
        fresh.following(machine.participant)
    with pytest.raises(LocalProtocolError, match="has not started"):
        fresh.tick(machine.participant.timeouts.shares_s) if fresh.deadline else fresh._joining
    assert codec.decode(codec.encode(held[0]).join()) == held[0]


# -- what no run can have ------------------------------------------------------------------------------------


def test_a_group_in_a_later_step_that_its_members_can_not_be_in_is_refused():
    first = group_at()
    check_step(first)
    check_step(first.later(base(3, 1, size=4, anchor=3)))
    impossible = (base(3, 1, size=4, anchor=2), base(0, 1, size=4, anchor=0), base(3, 1, size=3, anchor=3))
    for each in impossible:
        with pytest.raises(RemoteProtocolError, match="a later step of a run on a base"):
            check_step(first.later(each))
    with pytest.raises(RemoteProtocolError, match="a later step of a run on a base"):
        check_step(group_at(open=(b"s" * 32,)).later(base(3, 1, size=4, anchor=3)))


def test_a_coordinator_makes_no_group_for_a_later_step():
    wires = swarm()
    groups: list[Group] = []
    wires.dropped = lambda _s, _t, message: isinstance(message, Group) and not groups.append(message)
    wires.offer()
    coordinator = next(key for key in KEYS if key.public == groups[0].coordinator)
    member = next(key for key in KEYS if key is not coordinator)
    wires.hand(endpoint(member), groups[0].later(base(3, 1, size=4, anchor=3)), endpoint(coordinator))

    assert "for a later step" in str(wires.errors[-1])


def test_a_certificate_shows_the_deals_of_its_own_step():
    wires = swarm().offer().offer()
    one, two = [end for where, end in wires.ends(Completed) if where == endpoint(KEYS[0])][:2]
    scheme = STEPS["masked"].scheme(5, 4)
    check_result(two.certificate, two.group, scheme)
    swapped = replace(two.certificate, dealt=one.certificate.dealt)

    with pytest.raises(RemoteProtocolError, match="a deal of another run or step"):
        check_result(swapped, two.group, scheme)
