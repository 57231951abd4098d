"""Words behind an offer pass through shares and masks into means and certificates."""

from dataclasses import replace

import pytest

from protocol.aggregation.masked.layout import ALL_TO_ALL_BYTES
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.wire.masked_messages import Masked, ResultCertificate
from protocol.wire.messages import Certificate
from scenarios.simulator.plans import SEEDS, SUMS, Conditions, Deadlines, Late, Offers, Plan, Summation, split
from tests.simulation.runs import outcomes, reasons, run, sent

ROUNDS, SLOTS = 2, 2
MASKS = [MaskedSettings(4.0, None, least) for least in (0, ALL_TO_ALL_BYTES)]


@pytest.mark.parametrize("kind", ["seed", "ring", "float"])
def test_shares_of_longer_offers_are_summed_and_bases_stay_as_long_as_they_were(kind):
    plan = Plan(4, ROUNDS, aggregation=Summation(replace(SEEDS, kind=kind), slots=SLOTS))
    network = run(plan, seed=1)
    assert all(reasons(network, peer) == [None] * ROUNDS for peer in range(4))
    assert {len(peer.disk.bases[peer.base.digest]) for peer in network.peers} == {plan.aggregation.dimension}
    assert len(network.digests()) == 1


@pytest.mark.parametrize("masked", MASKS, ids=["by reducers", "by everybody"])
def test_masks_of_longer_offers_are_summed(masked):
    network = run(Plan(5, ROUNDS, aggregation=Summation(masked=masked, slots=SLOTS)), seed=1)
    assert all(reasons(network, peer) == [None] * ROUNDS for peer in range(5))
    assert len(network.digests()) == 1


def test_a_certificate_of_longer_sums_heals():
    late = Conditions(lates=(Late(2, SUMS, 17.0, 10.0),))
    network = run(Plan(4, ROUNDS, late, Summation(slots=SLOTS)), seed=1)
    assert {reasons(network, peer)[0] for peer in (0, 1, 3)} == {"sums-timeout"}
    assert sent(network, lambda line: isinstance(line.message, Certificate))
    assert len({peer.disk.bases[peer.base.digest].tobytes() for peer in network.peers}) == 1


@pytest.mark.parametrize("masked", MASKS, ids=["by reducers", "by everybody"])
def test_a_certificate_of_longer_masked_sums_heals(masked):
    """Peer 4 is cut off as the masks go out, falls back, and returns before the next round."""
    timeouts = Deadlines(sums_s=5.0)
    aggregation = Summation(masked=masked, timeouts=timeouts, slots=SLOTS)
    plan = Plan(5, ROUNDS, aggregation=aggregation, offers=Offers((12.0, 14.0)))
    (first, *_) = sent(run(plan, seed=2), lambda line: isinstance(line.message, Masked))
    cut = split([4], [0, 1, 2, 3], first.at_s, first.at_s + 8.0)
    network = run(replace(plan, conditions=Conditions(partitions=(cut,))), seed=2)
    assert reasons(network, 4) == ["masks-timeout", None]
    session = outcomes(network, 4)[0].sid
    assert all(reasons(network, peer) == [None] * ROUNDS for peer in range(4))
    proofs = sent(network, lambda line: isinstance(line.message, ResultCertificate))
    assert network.peers[4].endpoint in {line.to for line in proofs if line.message.sid == session}
    assert len({peer.disk.bases[peer.base.digest].tobytes() for peer in network.peers}) == 1
