"""Who this node is, what its swarm has fixed, and where it stands: what the parts of a session share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from protocol.actions import OpenVote
from protocol.aggregation.additive.shares import ShareSettings
from protocol.aggregation.masked.thresholds import MaskedSettings
from protocol.crypto.node_key import NodeKey
from protocol.quorum.electorate import Electorate
from protocol.quorum.lineage import FIRST, Line
from protocol.wire import codec
from protocol.wire.messages import Announce, Base, Key, Sid

ANNOUNCE_LIFETIME_S = 30.0
"""Who was not heard for so long, by the clock of who listens, is not waited for."""


@dataclass(frozen=True)
class Settings:
    """What does not change while a node runs.

    `parameters` is the canonical text that all members share; `dimension` is a base's, and `slots` says how
    many words a summed vector has behind it; `masked` is None where even large groups use `shares`; `seeds`
    are the endpoints to greet; `tracker` is the one introducer, or None where the peers coordinate
    themselves; `allow` is None where anyone may join; `instance` is 16 random bytes, new at each start;
    `last_round` is the last one that this node takes part in.
    """

    key: NodeKey
    endpoint: str
    task: str
    parameters: str
    dimension: int
    shares: ShareSettings
    masked: MaskedSettings | None
    min_participants: int
    seeds: tuple[str, ...]
    tracker: str | None
    pins: Mapping[str, Key]
    allow: frozenset[Key] | None
    group_timeout_s: float
    shares_timeout_s: float
    sums_timeout_s: float
    instance: bytes
    last_round: int
    slots: int = 0
    electorate: Electorate | None = None
    """Of the first base; None: the tracker names it."""
    weak: bool = True
    """Whether groups without a quorum of electors are allowed, once patience is over."""
    amnesty_s: float | None = None
    """After so long without a strong base, silent electors count as gone for good; None: never."""

    @property
    def summed(self) -> int:
        """The dimension of offers, sums and means; without its slots a mean is one of bases."""
        return self.dimension + self.slots

    @cached_property
    def parameters_hash(self) -> bytes:
        """What announcements carry in place of the text."""
        return codec.parameters_hash(self.parameters)

    def allows(self, key: Key) -> bool:
        """Whether this key may take part."""
        return self.allow is None or key in self.allow or key == self.key.public


@dataclass
class NodeState:
    """Where a node stands: its last round, its base and the base before, and whom it banned.

    All parts of a node read it; one class writes each field (tests/unit/protocol/test_state_owners.py).

    `line`: the line that its base stands in. `votes`: its open ones. `gone`: the electors of this
    anchor that its owner says are gone for good.

    `epoch`: higher at each start than ever before with this key, and stored before anything is announced.
    `counter`: of the last announcement in this epoch. `following`: it offers nothing any more, and never will
    again.
    """

    round: int
    base: Base
    previous: Base | None
    banned: set[Key]
    epoch: int = 0
    counter: int = 0
    following: bool = False
    line: Line = FIRST
    votes: dict[Sid, OpenVote] = field(default_factory=dict)
    gone: frozenset[bytes] = frozenset()

    def electorate(self, settings: Settings) -> Electorate | None:
        """Of this node's base; None where a tracker names it."""
        return settings.electorate if self.line.electors is None else self.line.electors

    def begin_epoch(self, epoch: int) -> None:
        """Whatever is announced from here on is later than what was announced in a lower epoch."""
        self.epoch, self.counter = epoch, 0

    def announce(self, settings: Settings, leaving: bool = False) -> Announce:
        """A fresh signed announcement; each is later than the one before."""
        self.counter += 1
        unsigned = Announce(
            key=settings.key.public,
            endpoint=settings.endpoint,
            task=settings.task,
            parameters=settings.parameters_hash,
            min_participants=settings.min_participants,
            instance=settings.instance,
            epoch=self.epoch,
            counter=self.counter,
            round=self.round,
            base=self.base,
            leaving=leaving,
            following=self.following,
            open=tuple(sorted(self.votes)),
        )
        return codec.sign(unsigned, settings.key)
