"""A member that is two nodes with one key: each of the others meets only one of them.

It can make two groups at once of which each has a quorum, if no elector is expected to lie. The simulator
fails a run in which two strong bases of honest peers stand side by side. A seed gives its place in the order
of keys (it is the first, and so coordinates, in half of them), whom each node meets, and how sums are made.
"""

from __future__ import annotations

import pytest

from protocol.quorum.electorate import Ballot
from scenarios.simulator.network import START_S, Network, by_key
from scenarios.simulator.plans import Conditions, Plan
from scenarios.simulator.rules import Violation
from scenarios.simulator.spoilers import ALL_OR_NONE, LEAVE_OUT, TOLERANT

PEERS = 5
KINDS = (TOLERANT, ALL_OR_NONE, None)


def network_of(seed: int, place: int | None = None) -> Network:
    masked = KINDS[seed // 2 % len(KINDS)]
    links = Conditions(reordering=0.0)
    at = (seed % 3 if seed % 2 else 0) if place is None else place
    two_faced = by_key(PEERS, seed)[at]
    return Network(Plan(PEERS, 10**6, links, masked=masked, leave_out=LEAVE_OUT, two_faced=two_faced), seed)


def honest(network: Network) -> list[int]:
    return [peer.index for peer in network.peers if peer.index != network.plan.two_faced]


@pytest.mark.parametrize("seed", range(24))
def test_it_makes_no_two_bases_beside_each_other(seed):
    network_of(seed).run_for(20.0)


@pytest.mark.soak
def test_it_does_so_in_none_of_1000_seeds():
    for seed in range(1000):
        network_of(seed).run_for(20.0)


def test_planted_fault_if_nobody_asks_for_rivals_it_does(monkeypatch):
    monkeypatch.setattr(Ballot, "outside", lambda _self, _announces: frozenset())
    with pytest.raises(Violation, match="stores a strong base beside another: a fork"):
        network_of(0).run_for(20.0)


def test_it_keeps_nobody_out_for_ever():
    """Once it makes sums with half of the others, only they know it. They see whom it leaves out."""
    network = network_of(64, place=0).run_for(100.0)
    made = max(network.peers[peer].base.generation for peer in honest(network))
    for peer in honest(network):
        own = [each for each in network.rules.outcomes if each.peer == peer and each.reason is None]
        late = [each for each in own if each.at_s > START_S + 50.0]
        assert len(late) > 3, f"peer {peer} took part in {len(own)} of {made} sums"
