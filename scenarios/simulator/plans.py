"""The plan of a simulated run, a value: the numbers of peers and rounds, the network, the faults.

Times of faults are virtual seconds since the start of the run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.masked.layout import ALL_TO_ALL_BYTES
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.crypto.node_key import NodeKey
from protocol.quorum.electorate import BY_SIZE
from protocol.vectors.ring import NARROW, WIDE
from protocol.wire.masked_messages import (
    Ack,
    Check,
    Join,
    JoinCertificate,
    Joined,
    Masked,
    Propose,
    Release,
    Total,
    ViewChange,
)
from protocol.wire.messages import Message, Ready, Share, Sum

READY = (Ready,)
SHARES = (Share,)
SUMS = (Sum,)
JOINS = (Join, Joined, JoinCertificate)
MASKS = (Masked, Total, Check)
ENDS = (Ack, Release)
VIEWS = (ViewChange, Propose)
KINDS: tuple[tuple[type[Message], ...], ...] = (READY, SHARES, SUMS, JOINS, MASKS, ENDS, VIEWS)
SEEDS = ShareSettings("seed", 4.0, 100.0)
MIN_PARTICIPANTS = 3


@dataclass(frozen=True)
class Crash:
    """Peer `peer` crashes instead of sending its `at_send`-th message; it restarts later, or never (None).

    The tracker, if there is one, is peer number `Plan.peers`.
    """

    peer: int
    at_send: int
    back_after_s: float | None


@dataclass(frozen=True)
class Hang:
    """Peer `peer` hangs after its `at_send`-th message (as by SIGSTOP), for a time or for ever (None).

    Its links stay open, so no peer notices.
    """

    peer: int
    at_send: int
    for_s: float | None


@dataclass(frozen=True)
class Partition:
    """All messages between these pairs are lost, in both directions, from `from_s` until `until_s`."""

    pairs: frozenset[frozenset[int]]
    from_s: float
    until_s: float

    def cuts(self, one: int, other: int, at_s: float) -> bool:
        """Whether a message between the two is lost at this time."""
        return self.from_s <= at_s < self.until_s and frozenset((one, other)) in self.pairs


def split(side: Sequence[int], others: Sequence[int], from_s: float, until_s: float) -> Partition:
    """Return the partition that separates one side from the others."""
    return Partition(frozenset(frozenset((a, b)) for a in side for b in others), from_s, until_s)


@dataclass(frozen=True)
class Late:
    """Messages of these kinds from peer `peer` arrive `by_s` later, until `until_s`."""

    peer: int
    kinds: tuple[type[Message], ...]
    by_s: float
    until_s: float


@dataclass(frozen=True)
class Leave:
    """Peer `peer` says goodbye and ends at `at_s`; it restarts at `back_at_s`, or never (None)."""

    peer: int
    at_s: float
    back_at_s: float | None


Liar = Callable[[NodeKey, str, Message], tuple[Message, ...]]
"""From the liar's key, an endpoint and the right message for it to the messages that it sends instead."""


@dataclass(frozen=True)
class Links:
    """How the network carries messages."""

    delay_s: tuple[float, float] = (0.001, 0.05)
    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 1.0
    """The share of messages that may overtake earlier ones of their link; all others keep the order."""
    notices_loss: bool = True
    """Whether a sender learns that a peer is dead or cut off; otherwise it notices only by deadlines."""


@dataclass(frozen=True)
class Conditions:
    """The network, and what goes wrong. `lies`: the peers that lie, each with its function."""

    links: Links = Links()
    crashes: tuple[Crash, ...] = ()
    hangs: tuple[Hang, ...] = ()
    partitions: tuple[Partition, ...] = ()
    lates: tuple[Late, ...] = ()
    leaves: tuple[Leave, ...] = ()
    """The peers that their owners stop in good order."""
    lies: tuple[tuple[int, Liar], ...] = ()
    two_faced: int | None = None
    """A peer that is two nodes with one key and one endpoint; every other peer meets only one of them."""


@dataclass(frozen=True)
class Deadlines:
    """The caps of the deadlines, in seconds."""

    group_s: float = 20.0
    shares_s: float = 15.0
    sums_s: float = 15.0

    @property
    def round_s(self) -> float:
        """The longest time that a round can take after the offer, in seconds."""
        return self.group_s + self.shares_s + self.sums_s


@dataclass(frozen=True)
class Summation:
    """How the members of a group sum their offers."""

    shares: ShareSettings = SEEDS
    masked: MaskedSettings | None = None
    """Settings of masked sums, used in groups that are large enough; None: shares in all groups."""
    timeouts: Deadlines = Deadlines()
    dimension: int = 6
    slots: int = 0
    """The number of extra words after the vector in every offer and sum."""
    run_steps: int = 1
    """The most steps of a run, if masked sums are all or none."""
    leave_out: int = 0
    """For how many sums peers first leave out one that withholds; 0: never."""


@dataclass(frozen=True)
class Quorum:
    """Who elects the first base, and what peers do without a quorum of them."""

    alike: bool = True
    """Whether all peers name the same electors of the first base.

    Otherwise no group has a quorum, and no vote binds.
    """
    weak: bool = True
    """Whether groups without a quorum of electors may form after a waiting time."""
    liars: int = BY_SIZE
    """How many electors may lie, as all peers have it."""


@dataclass(frozen=True)
class Offers:
    """How long peers train for an offer, and from which round on they have none."""

    train_s: tuple[float, float] = (0.2, 0.6)
    own_train_s: tuple[tuple[int, tuple[float, float]], ...] = ()
    """(peer, its times): the peers whose training takes another time than that of all others."""
    follows: tuple[tuple[int, int], ...] = ()
    """(peer, round): from this round on the peer's budget is spent, and it follows without offers."""


@dataclass(frozen=True)
class Plan:
    """The plan of one run."""

    peers: int
    rounds: int
    conditions: Conditions = Conditions()
    aggregation: Summation = Summation()
    quorum: Quorum = Quorum()
    offers: Offers = Offers()
    tracker: bool = False
    reuse_offers: bool = False
    """A planted fault that checks the tests: peers offer again what they spent in a failed round."""

    @property
    def faces(self) -> int:
        """The number of the second node of a two-faced peer: it comes after all hosts."""
        return self.peers + self.tracker


def random_plan(seed: int) -> Plan:
    """Draw a plan from a seed: size, shares or masks, network, faults."""
    rng = random.Random(seed ^ 0x5EED)  # noqa: S311 - a schedule, not a secret
    masked = None
    if rng.random() >= 0.5:
        ring = NARROW if seed // 2 % 2 else WIDE
        masked = MaskedSettings(4.0, rng.choice([None, 1]), rng.choice([0, ALL_TO_ALL_BYTES]), ring=ring)
    peers = rng.randint(3, 7) if masked is None or rng.random() < 0.85 else rng.randint(8, 10)
    tracker = rng.random() < 0.25
    rounds = rng.randint(2, 6) if peers < 8 else 2
    conditions = _random_conditions(rng, peers, peers + tracker)
    shares = ShareSettings(rng.choice(["seed", "ring", "float"]), 4.0, 100.0)
    follows: tuple[tuple[int, int], ...] = ()
    if rng.random() < 0.3:
        followers = rng.sample(range(peers), rng.randint(1, peers))
        follows = tuple((peer, rng.randint(1, rounds)) for peer in followers)
    aggregation = Summation(shares, masked, slots=seed % 2)
    return Plan(peers, rounds, conditions, aggregation, offers=Offers(follows=follows), tracker=tracker)


def _random_conditions(rng: random.Random, peers: int, hosts: int) -> Conditions:
    harsh = rng.random() < 0.4
    links = Links(
        delay_s=(0.001, rng.choice([0.02, 0.2, 2.0])),
        loss=rng.choice([0.0, 0.05, 0.2]) if harsh else 0.0,
        duplication=rng.choice([0.0, 0.2]),
        reordering=rng.choice([0.0, 0.5, 1.0]),
        notices_loss=rng.random() < 0.7,
    )
    crashes = tuple(
        Crash(peer, rng.randint(1, 150), rng.choice([None, rng.uniform(0.2, 20.0)]))
        for peer in rng.sample(range(hosts), rng.choice([0, 1, 1, 2, peers - 1]))
    )
    hangs: tuple[Hang, ...] = ()
    if rng.random() < 0.25:
        hang = Hang(rng.randrange(hosts), rng.randint(1, 150), rng.choice([None, rng.uniform(1.0, 40.0)]))
        hangs = (hang,)
    partitions: tuple[Partition, ...] = ()
    if harsh and rng.random() < 0.4:
        order = rng.sample(range(peers), peers)
        cut, begin = rng.randint(1, peers - 1), rng.uniform(0.0, 10.0)
        partitions = (split(order[:cut], order[cut:], begin, begin + rng.uniform(1.0, 60.0)),)
    lates: tuple[Late, ...] = ()
    if rng.random() < 0.25:
        by_s, until_s = rng.uniform(1.0, 20.0), rng.uniform(1.0, 30.0)
        lates = (Late(rng.randrange(peers), rng.choice(KINDS), by_s, until_s),)
    return Conditions(links, crashes, hangs, partitions, lates)
