"""One member that trains many times longer than the others, under virtual time: what it costs them.

The others keep at least LEAST of the sums that they make without it, and all that it learns enters a sum.
"""

from __future__ import annotations

from functools import cache

import pytest

from protocol.aggregation.masked.thresholds import MaskedSettings
from scenarios.simulator.network import Network
from scenarios.simulator.plans import Offers, Plan, Summation

LEAST = 0.8
LASTS_S = 90.0
SEED = 5
USUAL_S = (0.2, 0.6)
MASKED = MaskedSettings(4.0, None, 0)


def network_of(peers: int, masked: MaskedSettings | None, slow: dict[int, tuple[float, float]]) -> Network:
    aggregation = Summation(masked=masked, leave_out=4)
    offers = Offers(USUAL_S, own_train_s=tuple(slow.items()))
    return Network(Plan(peers, 10_000, aggregation=aggregation, offers=offers), SEED).run_for(LASTS_S)


def sums(network: Network, peer: int) -> int:
    """Returns how many sums a peer was in to their end."""
    return sum(one.reason is None for one in network.rules.outcomes if one.peer == peer)


@cache
def usual(peers: int, masked: MaskedSettings | None) -> int:
    """Returns how many sums so many peers make, all at the same pace."""
    return sums(network_of(peers, masked, {}), 0)


FAR, AS_GROUP_S = (4.0, 12.0), (20.0, 25.0)
"""20 times as long as usual, and as long as the group's timeout."""


@pytest.mark.parametrize(
    ("peers", "masked", "place", "slow_s"),
    [
        (5, MASKED, 0, AS_GROUP_S),
        (6, None, 3, FAR),
        pytest.param(5, MASKED, 0, FAR, marks=pytest.mark.soak),
        pytest.param(8, None, 5, FAR, marks=pytest.mark.soak),
        pytest.param(8, None, 5, AS_GROUP_S, marks=pytest.mark.soak),
    ],
)
def test_one_that_is_far_slower_costs_the_others_little(peers, masked, place, slow_s):
    network = network_of(peers, masked, {place: slow_s})
    others = [index for index in range(peers) if index != place]
    assert min(sums(network, index) for index in others) >= LEAST * usual(peers - 1, masked)
    assert all(one.reason is None for one in network.rules.outcomes), "and nobody goes on alone"
    slow = network.peers[place]
    assert slow.disk.units.count >= 3
    assert sums(network, place) >= slow.disk.units.count - 1, (
        "all that it learns enters, but for the last of it"
    )
    assert len(slow.disk.units.fresh) + len(slow.disk.units.spent) <= 1
