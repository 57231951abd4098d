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
from scenarios.simulator.spoilers import ALL_OR_NONE, OF_SHARES, SPOILERS, TOLERANT, network_of, pace, sums
from tests.cases import soak

LEAST = 0.8
SEED = 7
LASTS_S, SOAK_S = 60.0, 300.0
KINDS = pytest.mark.parametrize("masked", [TOLERANT, ALL_OR_NONE], ids=["tolerant", "all or none"])
PLACES = pytest.mark.parametrize("place", [0, 2], ids=["coordinates", "does not"])


@cache
def usual(peers: int, masked: MaskedSettings | None, lasts_s: float) -> int:
    """Returns how many sums are made without a spoiler."""
    return sums(network_of(peers, masked, SEED), lasts_s)


def check_pace(
    peers: int, masked: MaskedSettings | None, spoiler: str, places: tuple[int, ...], lasts_s: float = LASTS_S
) -> tuple[Network, int]:
    """Returns the network and the number of sums."""
    network = network_of(peers, masked, SEED, (SPOILERS if masked else OF_SHARES)[spoiler], places)
    made, calm = sums(network, lasts_s), usual(peers, masked, lasts_s)
    assert pace(made, calm, len(places), lasts_s) >= LEAST, (made, calm)
    return network, made


OF_A_COORDINATOR = ("closes no group", "closes groups for some", "accepts nobody")


@pytest.mark.sampled("no join", "complains of one after the other", "no total")
@pytest.mark.parametrize("spoiler", SPOILERS)
def test_one_of_five_costs_the_others_little(spoiler):
    """By turns it coordinates sums that tolerate a dropout, and does not coordinate those of all or none."""
    coordinates = spoiler in OF_A_COORDINATOR or list(SPOILERS).index(spoiler) % 2 == 0
    place, masked = (0, TOLERANT) if coordinates else (2, ALL_OR_NONE)
    check_pace(5, masked, spoiler, (place,))


@pytest.mark.soak
@KINDS
@PLACES
@pytest.mark.parametrize("spoiler", SPOILERS)
def test_one_of_five_costs_the_others_little_wherever_it_is(spoiler, place, masked):
    check_pace(5, masked, spoiler, (place,), SOAK_S)


@pytest.mark.sampled("shares to some-5", "sums to some-5")
@pytest.mark.parametrize("peers", [5, soak(8)])
@pytest.mark.parametrize("spoiler", OF_SHARES)
def test_one_that_withholds_shares_or_sums_costs_the_others_little(spoiler, peers):
    check_pace(peers, None, spoiler, (peers // 2,))


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("masked", "spoiler", "place"),
    [
        (TOLERANT, "closes groups for some", 0),
        soak(None, "shares to some", 4),
    ],
    ids=["groups", "shares"],
)
def test_members_to_which_one_of_eight_does_not_send_take_part_as_often_as_the_others(masked, spoiler, place):
    network, made = check_pace(8, masked, spoiler, (place,))
    liars = {liar for liar, _ in network.plan.conditions.lies}
    for peer in (peer.index for peer in network.peers if peer.index not in liars):
        took_part = sum(each.reason is None for each in network.rules.outcomes if each.peer == peer)
        assert took_part >= LEAST * made, peer


@pytest.mark.soak
@KINDS
@pytest.mark.parametrize(("peers", "places"), [(8, (0,)), (8, (4,)), (10, (0,)), (10, (5,)), (10, (0, 5))])
@pytest.mark.parametrize("spoiler", SPOILERS)
def test_one_or_two_of_many_cost_the_others_little(spoiler, peers, places, masked):
    check_pace(peers, masked, spoiler, places, SOAK_S)


def test_planted_fault_if_nobody_is_left_out_one_without_a_join_stops_all():
    network = network_of(5, TOLERANT, SEED, SPOILERS["no join"], (2,))
    aggregation = replace(network.plan.aggregation, leave_out=0)
    assert sums(Network(replace(network.plan, aggregation=aggregation), SEED), LASTS_S) == 0
