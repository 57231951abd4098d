"""A member that is two nodes with one key: each of the others meets only one of them.

It can make two groups at once of which each has a quorum, if no elector is expected to lie. The simulator
fails a run in which two strong bases of honest peers stand side by side. A seed gives its place in the order
of keys (it is the first, and so coordinates, in half of them), whom each node meets, and how sums are made.

Nobody is banned for two groups: the last test has an honest coordinator sign all that a liar would sign.
"""

from __future__ import annotations

import pytest

from protocol.quorum.electorate import Ballot
from protocol.wire import signing
from protocol.wire.messages import Group, Ready, Sum
from scenarios.simulator.network import START_S, Network, by_key
from scenarios.simulator.plans import Conditions, Links, Plan, Summation, split
from scenarios.simulator.rules import Violation
from scenarios.simulator.spoilers import ALL_OR_NONE, LEAVE_OUT, TOLERANT
from tests.cases import soaks

PEERS = 5
KINDS = (TOLERANT, ALL_OR_NONE, None)


def network_of(seed: int, place: int | None = None) -> Network:
    masked = KINDS[seed // 2 % len(KINDS)]
    at = (seed % 3 if seed % 2 else 0) if place is None else place
    conditions = Conditions(Links(reordering=0.0), two_faced=by_key(PEERS, seed)[at])
    aggregation = Summation(masked=masked, leave_out=LEAVE_OUT)
    return Network(Plan(PEERS, 10**6, conditions, aggregation), seed)


def honest(network: Network) -> list[int]:
    return [peer.index for peer in network.peers if peer.index != network.plan.conditions.two_faced]


@pytest.mark.sampled(without=["0", "1", "5", "6", "7", "9"])
@pytest.mark.parametrize("seed", [*range(12), *soaks(range(12, 1000))])
def test_it_makes_no_two_bases_beside_each_other(seed):
    network_of(seed).run_for(20.0)


def test_planted_fault_if_nobody_asks_for_rivals_it_does(monkeypatch):
    monkeypatch.setattr(Ballot, "outside", lambda _self, _announces: frozenset())
    with pytest.raises(Violation, match="stores a strong base beside another: a fork"):
        network_of(0).run_for(20.0)


@pytest.mark.sampled
def test_it_keeps_nobody_out_for_ever():
    """Once it makes sums with half of the others, only they know it. They see whom it leaves out."""
    network = network_of(64, place=0).run_for(100.0)
    made = max(network.peers[peer].base.generation for peer in honest(network))
    for peer in honest(network):
        own = [each for each in network.rules.outcomes if each.peer == peer and each.reason is None]
        late = [each for each in own if each.at_s > START_S + 50.0]
        assert len(late) > 3, f"peer {peer} took part in {len(own)} of {made} sums"


def own(group: Group) -> Ready:
    """Returns the READY of the coordinator."""
    return next(ready for ready in group.readys if ready.key == group.coordinator)


def test_an_honest_coordinator_signs_a_vote_and_two_groups_that_show_no_reason_for_the_second():
    """Two of its group cannot reach each other, leave without a vote and free its own; then they are gone.

    Its second group is on the same anchor, with nothing open, and without any member of the first one that
    could say so: these are the records of a coordinator that votes in one group and denies it in the other.
    """
    first, *others = by_key(PEERS, 1)
    leaving, staying, away_s = others[:2], others[2:], 20.0
    cuts = (
        split(staying, [first, *leaving], 0.0, away_s),
        split(leaving[:1], leaving[1:], 0.0, 100.0),
        split(leaving, [first, *staying], away_s, 100.0),
    )
    network = Network(Plan(PEERS, 10**6, Conditions(Links(reordering=0.0), partitions=cuts)), 1).run_for(40.0)

    sent = [each.message for each in network.transcript if each.sender == first]
    groups = {signing.session_id(each): each for each in sent if isinstance(each, Group)}
    voted = [groups[each.sid] for each in sent if isinstance(each, Sum) and each.sid in groups]
    later = [
        (one, other)
        for one in voted
        for other in groups.values()
        if own(other).announce.order > own(one).announce.order and other.base.anchor == one.base.anchor
    ]
    unproved = [
        (one, other)
        for one, other in later
        if {ready.key for ready in one.readys} & {ready.key for ready in other.readys} == {one.coordinator}
    ]
    assert unproved, "it has voted in one, and shares no member with the other"
    assert all(own(other).announce.open == () for _, other in unproved)
    assert any(signing.session_id(other) in network.rules.groups for _, other in unproved), "it has a result"
    assert not any(peer.node._state.banned for peer in network.peers)
    assert network.rules.accusations == []
