"""One member that spoils one step of every sum, among whole nodes in a simulated network: what it costs.

Two lost rounds are free for each. In the rest of the time the others make at least LEAST of the sums that
they make without it. The other rules of the simulator hold in each run: no honest member is accused, and
nobody waits beyond its deadlines.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from protocol.aggregation.masked.thresholds import MaskedSettings
from scenarios.simulator.network import Network
from scenarios.simulator.spoilers import ALL_OR_NONE, SPOILERS, TOLERANT, network_of, pace, sums

LEAST = 0.8
SEED = 7
LASTS_S = 300.0
KINDS = pytest.mark.parametrize("masked", [TOLERANT, ALL_OR_NONE], ids=["tolerant", "all or none"])


@cache
def usual(peers: int, masked: MaskedSettings) -> int:
    """Returns how many sums are made without a spoiler."""
    return sums(network_of(peers, masked, SEED), LASTS_S)


def check_pace(peers: int, masked: MaskedSettings, spoiler: str, places: tuple[int, ...]) -> None:
    made = sums(network_of(peers, masked, SEED, SPOILERS[spoiler], places), LASTS_S)
    assert pace(made, usual(peers, masked), len(places), LASTS_S) >= LEAST, (made, usual(peers, masked))


@KINDS
@pytest.mark.parametrize("place", [0, 2], ids=["coordinates", "does not"])
@pytest.mark.parametrize("spoiler", SPOILERS)
def test_one_of_five_costs_the_others_little(spoiler, place, masked):
    check_pace(5, masked, spoiler, (place,))


@pytest.mark.parametrize(
    "spoiler", ["no join", "joins to some", "nothing after the joins", "closes no group"]
)
def test_one_of_eight_costs_the_others_little(spoiler):
    check_pace(8, TOLERANT, spoiler, (0,))


def test_members_that_hear_of_no_group_of_one_coordinator_take_part_as_often_as_the_others():
    network = network_of(8, TOLERANT, SEED, SPOILERS["closes groups for some"], (0,))
    made = sums(network, LASTS_S)
    liars = {liar for liar, _ in network.plan.lies}
    for peer in (peer.index for peer in network.peers if peer.index not in liars):
        took_part = sum(each.reason is None for each in network.rules.outcomes if each.peer == peer)
        assert took_part >= LEAST * made, peer


@pytest.mark.soak
@KINDS
@pytest.mark.parametrize(("peers", "places"), [(8, (0,)), (8, (4,)), (10, (0,)), (10, (5,)), (10, (0, 5))])
@pytest.mark.parametrize("spoiler", SPOILERS)
def test_one_or_two_of_many_cost_the_others_little(spoiler, peers, places, masked):
    check_pace(peers, masked, spoiler, places)


def test_planted_fault_if_nobody_is_left_out_one_without_a_join_stops_all():
    network = network_of(5, TOLERANT, SEED, SPOILERS["no join"], (2,))
    assert sums(Network(replace(network.plan, leave_out=0), SEED), LASTS_S) == 0
