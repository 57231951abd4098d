"""One member that spoils one step of every sum, among whole nodes in a simulated network: what it costs.

Two lost rounds are free for each. In the rest of the time the others make at least LEAST of the sums that
they make without it. The other rules of the simulator hold in each run: no honest member is accused, and
nobody waits beyond its deadlines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from protocol.aggregation.masked.machine import GRACE_S
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.crypto.node_key import NodeKey
from protocol.wire.masked_messages import (
    Ack,
    Check,
    Join,
    JoinCertificate,
    Joined,
    Lacking,
    Masked,
    Propose,
    Release,
    Total,
    ViewChange,
)
from protocol.wire.messages import Accepted, Group, Message, Ready
from protocol.wire.signing import sign
from scenarios.simulator.network import Network
from scenarios.simulator.plans import Liar, Plan, Timeouts

LEAST, FREE = 0.8, 2
SEED = 7
LASTS_S = 300.0
LOST_S = Timeouts().shares_s + GRACE_S
"""What a lost round takes at most before timeouts have adapted."""
TOLERANT = MaskedSettings(4.0, None, 0)
ALL_OR_NONE = MaskedSettings(4.0, None, 0, honest=2)


def withholds(*kinds: type, to: Callable[[str], bool] = lambda _: True) -> Liar:
    """Sends no message of these kinds, to these endpoints."""

    def lie(key: NodeKey, endpoint: str, message: Message) -> tuple[Message, ...]:
        return () if isinstance(message, kinds) and to(endpoint) else (message,)

    return lie


def garbage(key: NodeKey, endpoint: str, message: Message) -> tuple[Message, ...]:
    """Sends JOINs whose sealed shares do not open."""
    return (replace(message, payload=bytes(len(message.payload))) if isinstance(message, Join) else message,)


def complains(key: NodeKey, endpoint: str, message: Message) -> tuple[Message, ...]:
    """Says that another's JOIN is missing, in place of its vote; another one each time."""
    if not isinstance(message, Joined):
        return () if isinstance(message, JoinCertificate) else (message,)
    members = [head.sender for head in message.heads]
    others = [number for number, member in enumerate(members) if member != key.public]
    victim = others[message.vote.sid[0] % len(others)]
    return (sign(Lacking(message.vote.sid, key.public, 1 << victim), key),)


LIES: dict[str, Liar] = {
    "never ready": withholds(Ready),
    "closes no group": withholds(Group),
    "accepts nobody": withholds(Accepted, Group),
    "no join": withholds(Join, Joined, JoinCertificate, Lacking),
    "joins of garbage": garbage,
    "joins to some": withholds(Join, to=lambda endpoint: int(endpoint.rpartition(":")[2]) % 2 == 0),
    "no vote for the joins": withholds(Joined, JoinCertificate),
    "complains of one after the other": complains,
    "nothing after the joins": withholds(Masked, Total, Check, Ack, Release, ViewChange, Propose),
    "no total": withholds(Total, Check, Ack, Release),
    "no check": withholds(Check),
    "no acknowledgement": withholds(Ack, Release),
    "no release": withholds(Release),
}


def network_of(peers: int, masked: MaskedSettings, lie: Liar | None, ranks: tuple[int, ...]) -> Network:
    """Returns a network in which the peers with these places in the order of keys lie."""
    plan = Plan(peers, 10**6, masked=masked, train_s=(1.0, 2.0), leave_out=4)
    order = sorted(Network(plan, SEED).peers, key=lambda peer: peer.key.public)
    lies = tuple((order[rank].index, lie) for rank in ranks if lie is not None)
    return Network(replace(plan, lies=lies), SEED)


def sums(network: Network) -> int:
    """Returns how many sums the honest peers make."""
    liars = {liar for liar, _ in network.plan.lies}
    network.run_for(LASTS_S)
    return max(peer.base.generation for peer in network.peers if peer.index not in liars)


@cache
def usual(peers: int, masked: MaskedSettings) -> int:
    """Returns how many sums are made without a liar."""
    return sums(network_of(peers, masked, None, ()))


def check_pace(peers: int, masked: MaskedSettings, lie: str, ranks: tuple[int, ...]) -> None:
    made = sums(network_of(peers, masked, LIES[lie], ranks))
    least = LEAST * usual(peers, masked) * (1 - len(ranks) * FREE * LOST_S / LASTS_S)
    assert made >= least, (lie, ranks, made, usual(peers, masked))


@pytest.mark.parametrize("masked", [TOLERANT, ALL_OR_NONE], ids=["tolerant", "all or none"])
@pytest.mark.parametrize("rank", [0, 2], ids=["coordinates", "does not"])
@pytest.mark.parametrize("lie", LIES)
def test_one_of_five_costs_the_others_little(lie, rank, masked):
    check_pace(5, masked, lie, (rank,))


@pytest.mark.parametrize("lie", ["no join", "joins to some", "nothing after the joins", "closes no group"])
def test_one_of_eight_costs_the_others_little(lie):
    check_pace(8, TOLERANT, lie, (0,))


@pytest.mark.soak
@pytest.mark.parametrize("masked", [TOLERANT, ALL_OR_NONE], ids=["tolerant", "all or none"])
@pytest.mark.parametrize(("peers", "ranks"), [(8, (0,)), (8, (4,)), (10, (0,)), (10, (5,)), (10, (0, 5))])
@pytest.mark.parametrize("lie", LIES)
def test_one_or_two_of_many_cost_the_others_little(lie, peers, ranks, masked):
    check_pace(peers, masked, lie, ranks)


def test_planted_fault_if_nobody_is_left_out_one_without_a_join_stops_all():
    network = network_of(5, TOLERANT, LIES["no join"], (2,))
    assert sums(Network(replace(network.plan, leave_out=0), SEED)) == 0
