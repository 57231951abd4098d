"""Some peers finish and others fall back: the certificate makes all bases equal again, bit by bit."""

from dataclasses import replace

import pytest

from protocol.wire.messages import Certificate
from scenarios.simulator.network import Network
from scenarios.simulator.plans import SEEDS, SUMS, Conditions, Crash, Late, Links, Plan, Summation
from tests.simulation.runs import end_of_sums, outcomes, reasons, run, sent


@pytest.mark.parametrize("kind", ["seed", "ring", "float"])
def test_who_fell_back_fetches_the_certificate_and_holds_the_same_bits(kind):
    """Peer 2's sums are late for all others: it alone completes the first session."""
    late = Conditions(lates=(Late(2, SUMS, 17.0, 10.0),))
    plan = Plan(4, 2, late, Summation(replace(SEEDS, kind=kind)))
    network = run(plan, seed=1)
    assert reasons(network, 2)[0] is None
    assert {reasons(network, peer)[0] for peer in (0, 1, 3)} == {"sums-timeout"}
    first = outcomes(network, 2)[0].sid
    assert {line.to for line in sent(network, lambda line: isinstance(line.message, Certificate))}
    for peer in network.peers:
        assert first in peer.disk.certificates
        assert peer.base.digest in network.digests()
    assert len(network.digests()) == 1
    held = {peer.disk.bases[peer.base.digest].tobytes() for peer in network.peers}
    assert len(held) == 1


def test_a_certificate_is_served_after_its_holders_restart():
    """Peer 2 alone completes, dies, and comes back with nothing but its disk."""
    slow = Conditions(lates=(Late(2, SUMS, 17.0, 10.0),))
    rehearsal = run(Plan(4, 2, slow), seed=1)
    first = outcomes(rehearsal, 2)[0].sid
    assert first is not None
    # It sends its sums, completes when the others' come, says so, and is gone a few sends later.
    crash = Crash(2, end_of_sums(rehearsal, 2, first) + 4, 3.0)
    conditions = Conditions(Links(notices_loss=False), lates=slow.lates, crashes=(crash,))
    network = run(Plan(4, 2, conditions), seed=1)
    assert network.peers[2].life >= 3
    assert {reasons(network, peer)[0] for peer in (0, 1, 3)} == {"sums-timeout"}
    assert _served(network, 2, first)
    assert all(first in peer.disk.certificates for peer in network.peers)
    assert len(network.digests()) == 1


def _served(network: Network, by: int, sid: bytes) -> bool:
    def is_it(message: object) -> bool:
        return isinstance(message, Certificate) and message.sid == sid

    return bool(sent(network, lambda line: line.sender == by and is_it(line.message)))


def test_what_was_spent_in_the_session_that_healed_is_over():
    network = run(Plan(4, 2, Conditions(lates=(Late(2, SUMS, 17.0, 10.0),))), seed=1)
    assert all(peer.disk.units.spent == () for peer in network.peers)
