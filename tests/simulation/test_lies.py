"""A member that sends two different sums of one session, both signed."""

from dataclasses import replace

import pytest

from protocol.crypto.bulk_digest import bulk_digest
from protocol.crypto.node_key import NodeKey
from protocol.wire import signing
from protocol.wire.messages import Certificate, Message, Sum
from scenarios.simulator.plans import Conditions, Liar, Links, Plan
from scenarios.simulator.rules import Violation
from tests.simulation.runs import run

ALICE, BOB = "127.0.0.1:7000", "127.0.0.1:7001"


def other_sum(key: NodeKey, honest: Sum) -> Sum:
    """Makes another sum with a valid signature."""
    payload = bytes(len(honest.payload))
    header = replace(honest.header, pieces=(bulk_digest(payload),), signature=b"")
    return replace(signing.sign(header, key), index=honest.index, payload=payload)


def two_faced(key: NodeKey, endpoint: str, message: Message) -> tuple[Message, ...]:
    """Sends one peer another sum than the others."""
    if isinstance(message, Sum) and message.sender == key.public and endpoint == ALICE:
        return (other_sum(key, message),)
    return (message,)


def both_at_once(key: NodeKey, endpoint: str, message: Message) -> tuple[Message, ...]:
    """Sends one peer both sums, the honest one first."""
    if isinstance(message, Sum) and message.sender == key.public and endpoint == BOB:
        return (message, other_sum(key, message))
    return (message,)


@pytest.mark.sampled("0-both_at_once", "1-both_at_once", "2-two_faced", "3-two_faced")
@pytest.mark.parametrize("liar", [two_faced, both_at_once])
@pytest.mark.parametrize("seed", range(4))
def test_equivocation_is_evidence_and_the_liar_is_banned(liar: Liar, seed):
    network = run(Plan(5, 6, Conditions(lies=((4, liar),))), seed)
    accusations = network.rules.accusations
    key = network.peers[4].key.public
    assert accusations, f"seed {seed}"
    for accusation in accusations:
        evidence = accusation.evidence
        assert evidence.sender == key
        first, second = evidence.records
        assert first.header != second.header
        signing.verify(first, key)
        signing.verify(second, key)
        assert key in network.peers[accusation.by].disk.state.banned


@pytest.mark.parametrize("seed", range(4))
def test_the_honest_end_alike_although_one_lies(seed):
    network = run(Plan(5, 6, Conditions(lies=((4, two_faced),))), seed)
    honest = {peer.base.digest for peer in network.peers[:4]}
    assert len(honest) == 1, f"seed {seed}"


@pytest.mark.parametrize("seed", range(3))
def test_both_sums_in_one_session_are_seen_there_without_any_certificate(seed):
    """Bob's mean is right, and so is everybody else's: only the two sums that he saw reveal the lie."""
    conditions = Conditions(Links(reordering=0.0), lies=((4, both_at_once),))
    network = run(Plan(5, 8, conditions), seed)
    accusers = [accusation.by for accusation in network.rules.accusations]
    assert accusers[0] == 1, f"seed {seed}"
    assert sorted(accusers) == [0, 1, 2, 3], "he shows both to the others"


def test_an_accusation_of_somebody_honest_is_a_violation():
    plan = Plan(5, 6, Conditions(lies=((4, two_faced),)))
    network = run(plan, 0)
    evidence = network.rules.accusations[0].evidence
    with pytest.raises(Violation, match="accuses peer 2, who is honest"):
        network.rules.accused(0, 2, evidence)


def test_a_certificate_with_the_other_sum_is_what_tells():
    """Alice holds one sum, the others another: the certificate that she fetches shows both."""
    network = run(Plan(5, 6, Conditions(lies=((4, two_faced),))), 0)
    assert any(isinstance(line.message, Certificate) for line in network.transcript)
