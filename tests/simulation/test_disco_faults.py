"""Each fault found in DISCO (the table of reference/disco.md), and a test that it does not occur here."""

from itertools import pairwise

import numpy as np
import pytest

from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.fixed_point import FixedPoint
from protocol.vectors.pieces import Floats
from protocol.wire.messages import BasePiece, Share, Sum
from scenarios.simulator.network import START_S, Network
from scenarios.simulator.peer import SimulatedPeer
from scenarios.simulator.plans import (
    SUMS,
    Conditions,
    Crash,
    Hang,
    Late,
    Links,
    Partition,
    Plan,
    Summation,
    random_plan,
)
from tests.simulation.runs import FOREVER_S, group_that_loses_one, outcomes, reasons, run, seconds


def means_of(network: Network, peer: SimulatedPeer) -> Floats:
    """Returns (d,) float64: the base that the members' own offers lead to, by the sessions that made it."""
    total, base = np.zeros(network.plan.aggregation.dimension), peer.base
    while base.generation:
        group, before, _ = peer.disk.certificates[base.sid]
        offers = [network.rules.offers[base.sid, ready.key] for ready in group.readys]
        total += np.mean([network.rules.offered(*offer) for offer in offers], axis=0)
        base = before
    return total


@pytest.mark.parametrize("by_s", [15.0, 15.05, 15.1, 17.0])
@pytest.mark.parametrize("kind", ["seed", "ring", "float"])
def test_late_partial_sum(kind, by_s):
    """n = 3, one is 17 s late, 15 s timeout: the two others took a random partial sum for the model."""
    conditions = Conditions(lates=(Late(2, SUMS, by_s, 10.0),))
    network = run(Plan(3, 3, conditions, Summation(ShareSettings(kind, 4.0, 100.0))), seed=1)
    assert reasons(network, 0)[0] == reasons(network, 1)[0] == "sums-timeout"
    assert len(network.digests()) == 1
    for peer in network.peers:
        held = peer.disk.bases[peer.base.digest]
        assert np.abs(held).max() < 1.0
        assert np.abs(held - means_of(network, peer)).max() < 1e-3


@pytest.mark.parametrize("at_send", range(1, 40, 9))
def test_silent_peer(at_send):
    """A peer sends nothing while its links stay open: no peer ever returned."""
    conditions = Conditions(Links(notices_loss=False), hangs=(Hang(0, at_send, None),))
    network = run(Plan(4, 2, conditions), seed=4)
    others = network.peers[1:]
    assert all(peer.done for peer in others)
    assert len({peer.base.digest for peer in others}) == 1


def raw_forms(network: Network, peer: SimulatedPeer) -> set[bytes]:
    """Returns the bytes that would reveal a peer: its updates and its bases, as floats and in fixed point."""
    vectors = [network.rules.offered(peer.index, (unit,)) for unit in range(peer.disk.units.count)]
    vectors += [
        network.rules.offered(owner, units)
        for owner, units in network.rules.offers.values()
        if owner == peer.index
    ]
    vectors += [vector for vector in peer.disk.bases.values() if vector.any()]
    points = [FixedPoint(4.0, members) for members in range(3, network.plan.peers + 1)]
    forms = {vector.astype("<f4").tobytes() for vector in vectors}
    for vector in vectors:
        forms |= {
            np.floor(vector * point.scale + up).astype("<i4").tobytes() for point in points for up in (0, 1)
        }
    return forms


def test_after_a_failed_second_round_nothing_raw_is_sent():
    """The phase counter was not reset, and the next payload held the raw weights."""
    network = group_that_loses_one(reuse_offers=False)
    failed = {
        (peer, outcome.sid): seconds(outcome) for peer in (0, 1, 2) for outcome in outcomes(network, peer)[:1]
    }
    assert all(sid is not None for _, sid in failed)
    forms = set().union(*(raw_forms(network, peer) for peer in network.peers))
    for line in network.transcript:
        message = line.message
        if isinstance(message, Share | Sum):
            assert line.at_s <= failed.get((line.sender, message.sid), FOREVER_S)
        if isinstance(message, Share | Sum | BasePiece):
            assert isinstance(message, BasePiece) or bytes(message.payload) not in forms


@pytest.mark.sampled("0", "3", "4", "5")
@pytest.mark.parametrize("seed", range(6))
def test_no_payload_is_ever_raw(seed):
    network = run(random_plan(seed), seed)
    forms = set().union(*(raw_forms(network, peer) for peer in network.peers))
    payloads = {
        bytes(line.message.payload) for line in network.transcript if isinstance(line.message, Share | Sum)
    }
    assert not payloads & forms, f"seed {seed}"


def test_waiting_for_the_group_has_a_deadline():
    """No group can form: a node adds its own update, at T_group, round after round."""
    network = run(
        Plan(3, 3, Conditions(Links(notices_loss=False), hangs=(Hang(1, 4, None), Hang(2, 4, None)))), seed=2
    )
    ends = [0.0, *(seconds(outcome) for outcome in outcomes(network, 0))]
    assert reasons(network, 0) == ["group-timeout"] * 3
    assert max(b - a for a, b in pairwise(ends)) <= 5.0 + 20.0 + 1.0


@pytest.mark.parametrize("tracker", [False, True])
def test_connecting_has_a_deadline(tracker):
    """No peer ever answered, and no error was reported."""
    pairs = frozenset(frozenset((a, b)) for a in range(4) for b in range(a))
    conditions = Conditions(Links(notices_loss=False), partitions=(Partition(pairs, 0.0, FOREVER_S),))
    network = run(Plan(3, 2, conditions, tracker=tracker), seed=2)
    assert {outcome.reason for outcome in network.rules.outcomes} == {"group-timeout"}
    assert network.now - START_S < 2 * 21.0 + 5.0 + 10.0 + 1.0


@pytest.mark.parametrize("seed", range(5))
def test_subset_retry_never_offers_the_same_vector(seed):
    """The difference of the two sums was the departed peer's update."""
    network = group_that_loses_one(reuse_offers=False, seed=seed)
    offered: dict[int, list[tuple[int, ...]]] = {}
    for peer, units in network.rules.offers.values():
        offered.setdefault(peer, []).append(units)
    assert len(offered[0]) >= 2, f"seed {seed}"
    for offers in offered.values():
        units = [unit for offer in offers for unit in offer]
        assert len(units) == len(set(units)), f"seed {seed}"


def test_a_restart_does_not_bring_an_offer_back():
    """Killed after its sum was sent: its offer is spent on its disk, and not offered again."""
    for at_send in range(14, 40, 2):
        network = run(Plan(4, 4, Conditions(crashes=(Crash(1, at_send, 0.2),))), seed=at_send)
        units = [unit for peer, offer in network.rules.offers.values() if peer == 1 for unit in offer]
        assert len(units) == len(set(units)), at_send


def test_whole_weights_are_never_shared_only_deltas_never_offered_before():
    """The partial sums of every session add up to fresh deltas, and contain nothing of the base."""
    network = run(Plan(5, 5, Conditions(crashes=(Crash(2, 50, 1.0),)), Summation(dimension=8)), seed=6)
    sums: dict[bytes, dict[bytes, np.ndarray]] = {}
    for line in network.transcript:
        if isinstance(line.message, Sum):
            words = np.frombuffer(line.message.payload, dtype="<u4")
            sums.setdefault(line.message.sid, {})[line.message.sender] = words
    assert len(network.rules.groups) >= 4
    for sid, members in network.rules.groups.items():
        total = np.sum([sums[sid][key] for key in members], axis=0, dtype="<u4")
        decoded = FixedPoint(4.0, len(members)).decode_sum(total)
        deltas = np.sum([network.rules.offered(*network.rules.offers[sid, key]) for key in members], axis=0)
        assert np.abs(decoded - deltas).max() < 1e-5
