"""A node's settings and its node state: what the parts of a node share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import isinf

from protocol.actions import OpenVote
from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.masked.thresholds import LEAST_MEMBERS, MaskedSettings, Scheme, Tolerance
from protocol.aggregation.participant import SessionTimeouts
from protocol.aggregation.transfer import additive_bytes, transfer_s
from protocol.crypto.node_key import NodeKey
from protocol.quorum.electorate import BY_SIZE, Ballot, Electorate, strong_ballot
from protocol.quorum.lineage import FIRST, Line
from protocol.vectors.shelf import MakeShelf, in_memory
from protocol.wire import signing
from protocol.wire.endpoints import key_of, of_key
from protocol.wire.ids import NO_SID
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Announce, Base, ChargeCount, Charged, Group, Key, Sid, Vouch

ANNOUNCE_LIFETIME_S = 30.0
"""A node stops waiting for a peer that it has not heard for this long, by its own clock."""
_PEERS_OF_MASKED = 3
"""A member of a masked group sends less than two vectors: as much as one of three that sum shares."""


@dataclass(frozen=True)
class SharedTask:
    """What all members of a swarm share: the `name` of their task, and what they do for it.

    `parameters`: the canonical text of all that must be the same.
    """

    name: str
    parameters: str
    min_participants: int
    sums: int
    """The most sums of the run: a base may end it before (`NodeState.last`)."""
    by_steps: bool = False
    """Whether each sum is one step from the base for which its offers were made; else sums are of updates."""
    run_steps: int = 1
    """The most steps that a group takes at once: those of a round, where each sum is one step."""
    leave_out: int = 0
    """For how many sums a member is left out first, if sums fail for want of its messages; 0: never."""
    cohort: bool = False
    """Whether all sums of the run have the members of the first: two totals then never tell one member's."""
    budget: str = ""
    """What charges are counted for, with a member's key; empty if nothing is ever charged."""

    @cached_property
    def parameters_hash(self) -> bytes:
        """The hash that announcements carry in place of the parameters' text."""
        return signing.parameters_hash(self.parameters)

    @property
    def swarm(self) -> tuple[str, bytes]:
        """What all members of the swarm announce: the task, and the hash of its parameters."""
        return self.name, self.parameters_hash


@dataclass(frozen=True, slots=True)
class Vouches:
    """What the owner of a node in an invited swarm knows of later members. `swarm`: the digest of its list.

    Empty where nobody was invited: then no word counts. `known`: members' words for later ones, accepted or
    not; `removed`: with whom the node learns no more.
    """

    swarm: bytes
    known: tuple[Vouch, ...] = ()
    removed: frozenset[Key] = frozenset()


NO_VOUCHES = Vouches(b"")


@dataclass(frozen=True, slots=True)
class Contacts:
    """Whom a node greets, and whom it accepts when it starts.

    `seeds`: the endpoints to greet. `tracker`: the endpoint that introduces the peers, or None if the peers
    coordinate themselves. `pins`: the key that must answer at an endpoint. `allow`: None if anyone may join.
    In an invited swarm there are `vouches`, and `allow` may change while the node runs.
    """

    seeds: tuple[str, ...]
    tracker: str | None
    pins: Mapping[str, Key]
    allow: frozenset[Key] | None
    vouches: Vouches = NO_VOUCHES


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How groups sum. `masked` is None if large groups, too, use `shares`."""

    dimension: int
    """The length of a base."""
    shares: ShareSettings
    masked: MaskedSettings | None
    offered: int | None = None
    """The length of the longest offer, and of its sum; None: that of a base."""
    lengths: Callable[[int], int] | None = None
    """The length of offers on a base of a generation, and of their sum; None: all are as long.

    It is the same function at all members. Each offer is then made for one base.
    """

    @property
    def longest(self) -> int:
        """The length of the longest sum."""
        return self.dimension if self.offered is None else self.offered

    def summed(self, generation: int) -> int:
        """The length of offers on a base of this generation, and of their sum."""
        return self.longest if self.lengths is None else self.lengths(generation)

    def masked_for(self, members: int) -> MaskedSettings | None:
        """How a group of this size sums with masks; None if it sums shares."""
        return self.masked if members >= LEAST_MEMBERS else None

    def tolerance(self, members: int) -> Tolerance | None:
        """What a group of this size tolerates if it sums with masks; None if it sums shares."""
        masked = self.masked_for(members)
        return None if masked is None else masked.tolerance(members)

    def scheme(self, members: int, generation: int) -> Scheme | None:
        """How a group of this size on a base of this generation sums with masks; None: it sums shares."""
        masked = self.masked_for(members)
        return None if masked is None else masked.scheme(self.summed(generation), members)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """T_group, and the caps of a session's halves; how long an offer waits for a group at least."""

    group_s: float
    session: SessionTimeouts
    wait_s: float = 0.0
    """For the first offer of each start; infinite: for ever."""
    wait_each_s: float = 0.0
    """For every offer, from its begin on; infinite: a missing quorum never ends a round."""

    @property
    def is_endless(self) -> bool:
        """Whether the owner has this node wait for every group as long as it takes."""
        return isinf(self.wait_each_s)


@dataclass(frozen=True, slots=True)
class QuorumRules:
    """Who may make a strong base, and what a node does without them."""

    electorate: Electorate | None = None
    """The electorate of the first base; None: the tracker names it."""
    liars: int = BY_SIZE
    """How many electors may lie; BY_SIZE: as many as is usual among so many."""
    weak: bool = True
    """Whether this node joins groups without a quorum of electors, once its patience is over."""
    amnesty_s: float | None = None
    """After this long without a strong base, silent electors count as gone for good; None: never."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What does not change while a node runs. `instance`: 16 random bytes, new at each start."""

    key: NodeKey
    endpoint: str
    instance: bytes
    task: SharedTask
    contacts: Contacts
    aggregation: Aggregation
    timeouts: Timeouts
    quorum: QuorumRules
    shelf: MakeShelf = in_memory
    """Makes what keeps the payloads of a sum until it is over."""

    @property
    def bulk_s(self) -> float:
        """The longest time that a bulk message may take on its way, as all bulk of its step may be as late.

        Groups that sum shares may be as large as the peers are many; masked ones send less.
        """
        session, seeds = self.timeouts.session, self.contacts.seeds
        peers = 1 + len(seeds) if seeds else MAX_MEMBERS
        members = _PEERS_OF_MASKED if self.aggregation.masked else peers
        takes_s = transfer_s(additive_bytes(self.aggregation.longest, members), session.least_rate)
        return max(session.shares_s, session.sums_s) + takes_s

    def may_be_at(self, key: Key, endpoint: str) -> bool:
        """Whether a node with this key may announce this endpoint.

        An endpoint that stands for a key is announced by this key alone. If this node's own one does, all
        others' must, too: so nobody makes it dial the address of a machine.
        """
        is_by_key = any(key_of(end) is not None for end in (self.endpoint, endpoint))
        return not is_by_key or endpoint == of_key(key)


@dataclass
class NodeState:
    """A node's base and the base before, how many rounds it has ended, and the keys that it banned.

    All parts of a node read it; one class writes each field (tests/unit/protocol/test_state_owners.py).

    `round`: how many rounds it has ended, with others or alone, and, where its owner has it wait, sessions
    that it has left without spending its offer. It is this node's own count: nobody else's message changes
    it, and no other node compares it with anything but an earlier value of it.

    `line`: the line of its base. `votes`: its open votes. `gone`: the electors of this anchor that its owner
    declares gone for good. `run`: the run of steps that it is in, by the sid of its first step.

    `epoch`: higher at each start than ever before with this key, and stored before the first announcement.
    `counter`: the number of the last announcement in this epoch. `following`: the node makes no more offers,
    for good.

    `banned`: with each key the signed records that prove why, as `signing.evidence` writes them.

    `charged`: what its ledger on disk has charged. `counts`: what others have charged, as they signed it.

    `allow`: the keys that may take part, besides this node's own; None: any.
    `last`: the generation of the run's last base, once this node has it; None: it knows only the most sums.
    """

    round: int
    base: Base
    previous: Base | None
    banned: dict[Key, tuple[bytes, ...]]
    epoch: int = 0
    counter: int = 0
    following: bool = False
    line: Line = FIRST
    votes: dict[Sid, OpenVote] = field(default_factory=dict)
    gone: frozenset[bytes] = frozenset()
    run: Sid = NO_SID
    charged: ChargeCount = field(default_factory=ChargeCount)
    counts: dict[Key, Charged] = field(default_factory=dict)
    allow: frozenset[Key] | None = None
    last: int | None = None

    def allows(self, key: Key, settings: Settings) -> bool:
        """Whether this key may take part. Safe in any thread: `allow` is replaced, never changed in place."""
        return self.allow is None or key in self.allow or key == settings.key.public

    def is_last(self, base: Base, settings: Settings) -> bool:
        """Whether the run is over with this base, as far as this node knows."""
        return base.generation >= (settings.task.sums if self.last is None else self.last)

    def electorate(self, settings: Settings) -> Electorate | None:
        """The electorate of this node's base; None if a tracker names it."""
        return settings.quorum.electorate if self.line.electors is None else self.line.electors

    def cohort(self, settings: Settings) -> frozenset[Key]:
        """The members of every further sum; empty before the first one, or if members may come and go."""
        electors = self.line.electors
        return frozenset() if electors is None or not settings.task.cohort else frozenset(electors.members)

    def least(self, settings: Settings) -> int:
        """The fewest members of the next sum."""
        return len(self.cohort(settings)) or settings.task.min_participants

    def ballot(self, group: Group, settings: Settings) -> Ballot | None:
        """How a group on this node's base counts votes; None if it cannot make a strong base."""
        return strong_ballot(group, self.electorate(settings), settings.quorum.liars)

    def begin_epoch(self, epoch: int) -> None:
        """Begin an epoch: its announcements are later than those of any lower epoch."""
        self.epoch, self.counter = epoch, 0

    def announce(self, settings: Settings, leaving: bool = False) -> Announce:
        """A new signed announcement, later than all before it."""
        self.counter += 1
        unsigned = Announce(
            key=settings.key.public,
            endpoint=settings.endpoint,
            task=settings.task.name,
            parameters=settings.task.parameters_hash,
            min_participants=self.least(settings),
            instance=settings.instance,
            epoch=self.epoch,
            counter=self.counter,
            round=self.round,
            base=self.base,
            leaving=leaving,
            following=self.following,
            open=tuple(sorted(self.votes)),
            run=self.run,
        )
        return signing.sign(unsigned, settings.key)
