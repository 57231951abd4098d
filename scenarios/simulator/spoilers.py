"""Members that spoil one step of every sum, and the sums that the others make beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from protocol.aggregation.lacking import GRACE_S
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
from protocol.wire.messages import Accepted, Group, Message, Ready, Share, Sum
from protocol.wire.signing import sign
from scenarios.simulator.network import Network, by_key
from scenarios.simulator.plans import Conditions, Deadlines, Liar, Links, Offers, Plan, Summation

FREE = 2
"""How many rounds each of them may spoil before its victims know it."""
LOST_S = Deadlines().shares_s + GRACE_S
"""What a lost round takes at most, as long as the timeouts have not adapted (s)."""
LEAVE_OUT = 4
TOLERANT = MaskedSettings(4.0, None, 0)
"""Masked sums that go on without a fifth of their members."""
ALL_OR_NONE = MaskedSettings(4.0, None, 0, honest=2)
"""Masked sums as with shared noise."""


def withholds(*kinds: type, to: Callable[[str], bool] = lambda _: True) -> Liar:
    """A member that sends no message of these kinds to these endpoints."""

    def lie(key: NodeKey, endpoint: str, message: Message) -> tuple[Message, ...]:
        return () if isinstance(message, kinds) and to(endpoint) else (message,)

    return lie


def _is_even(endpoint: str) -> bool:
    return int(endpoint.rpartition(":")[2]) % 2 == 0


def _joins_of_garbage(key: NodeKey, endpoint: str, message: Message) -> tuple[Message, ...]:
    """Sends JOINs whose sealed shares do not open."""
    return (replace(message, payload=bytes(len(message.payload))) if isinstance(message, Join) else message,)


def _complains(key: NodeKey, endpoint: str, message: Message) -> tuple[Message, ...]:
    """Says in place of its vote that another's JOIN is missing; of another one in each session."""
    if not isinstance(message, Joined):
        return () if isinstance(message, JoinCertificate) else (message,)
    members = [head.sender for head in message.heads]
    others = [number for number, member in enumerate(members) if member != key.public]
    victim = others[message.vote.sid[0] % len(others)]
    return (sign(Lacking(message.vote.sid, key.public, 1 << victim), key),)


SPOILERS: Mapping[str, Liar] = {
    "never ready": withholds(Ready),
    "closes no group": withholds(Group),
    "closes groups for some": withholds(Group, to=_is_even),
    "accepts nobody": withholds(Accepted, Group),
    "no join": withholds(Join, Joined, JoinCertificate, Lacking),
    "joins of garbage": _joins_of_garbage,
    "joins to some": withholds(Join, to=_is_even),
    "no vote for the joins": withholds(Joined, JoinCertificate),
    "complains of one after the other": _complains,
    "nothing after the joins": withholds(Masked, Total, Check, Ack, Release, ViewChange, Propose),
    "no total": withholds(Total, Check, Ack, Release),
    "no check": withholds(Check),
    "no acknowledgement": withholds(Ack, Release),
    "no release": withholds(Release),
}
"""What each of them does to masked sums, by name."""
OF_SHARES: Mapping[str, Liar] = {
    "no share": withholds(Share),
    "shares to some": withholds(Share, to=_is_even),
    "sums to some": withholds(Sum, to=_is_even),
}
"""And to additive ones. Who holds back its sum from all binds the others' votes (docs/quorum.md)."""


def network_of(
    peers: int,
    masked: MaskedSettings | None,
    seed: int,
    spoiler: Liar | None = None,
    places: tuple[int, ...] = (),
) -> Network:
    """A network in which the peers at these places in the order of keys spoil sums; None: additive ones.

    Training takes 1 to 2 s of virtual time. Messages between two peers keep their order, as on a stream.
    """
    order = by_key(peers, seed)
    lies = tuple((order[place], spoiler) for place in places if spoiler is not None)
    conditions = Conditions(Links(reordering=0.0), lies=lies)
    aggregation = Summation(masked=masked, leave_out=LEAVE_OUT)
    return Network(Plan(peers, 10**6, conditions, aggregation, offers=Offers((1.0, 2.0))), seed)


def sums(network: Network, seconds: float) -> int:
    """How many sums its honest peers make in so many virtual seconds."""
    liars = {liar for liar, _ in network.plan.conditions.lies}
    network.run_for(seconds)
    return max(peer.base.generation for peer in network.peers if peer.index not in liars)


def pace(made: int, usual: int, spoilers: int, seconds: float) -> float:
    """The sums made in relation to the usual ones, without the time of the FREE rounds of each spoiler."""
    return made / (usual * (1 - spoilers * FREE * LOST_S / seconds))
