"""One member's part in one session: what is fixed before it starts, in either protocol."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from protocol.crypto.node_key import NodeKey
from protocol.crypto.sealing import Channel, Ephemeral
from protocol.quorum.electorate import Ballot
from protocol.vectors.shelf import MakeShelf, in_memory
from protocol.wire import signing
from protocol.wire.messages import Base, Group, Key, Ready, Sid


@dataclass(frozen=True, slots=True)
class SessionTimeouts:
    """The caps of a session's two halves (s), and the rate at which its members agreed that bulk may come."""

    shares_s: float
    sums_s: float
    least_rate: float = math.inf
    """In bytes per second; if it is infinite, bulk has no time of its own."""


@dataclass(frozen=True)
class Participant:
    """A member of `group`; offers are (dimension,) vectors.

    `ballot`: how the group counts votes, if it may make a strong base. `shelf`: makes what keeps the payloads
    of a sum.
    """

    group: Group
    round: int
    key: NodeKey
    ephemeral: Ephemeral
    dimension: int
    timeouts: SessionTimeouts
    ballot: Ballot | None = None
    shelf: MakeShelf = in_memory

    def at(self, base: Base, ballot: Ballot, dimension: int, sums_s: float) -> Participant:
        """This member in the next step of its run, on the base that this step made."""
        return replace(
            self,
            group=self.group.later(base),
            round=self.round + 1,
            ballot=ballot,
            dimension=dimension,
            timeouts=replace(self.timeouts, sums_s=sums_s),
        )

    def suffices(self, keys: Iterable[Key]) -> bool:
        """Whether the releases of these members are a quorum; any are, if the group has no ballot."""
        return self.ballot is None or self.ballot.is_quorum(keys)

    @cached_property
    def sid(self) -> Sid:
        """The session's id: binds every message of it."""
        return signing.session_id(self.group)

    @cached_property
    def run_sid(self) -> Sid:
        """The id of the first session of this one's run, which is this one if it is in no run."""
        return signing.session_id(self.group.run)

    @cached_property
    def ephemerals(self) -> dict[Key, bytes]:
        """Every member's X25519 key, by node key."""
        return {ready.key: ready.ephemeral for ready in self.group.readys}

    @cached_property
    def members(self) -> tuple[Key, ...]:
        """Node keys in key order; a member's number is its place here."""
        return tuple(sorted(self.ephemerals))

    @cached_property
    def numbers(self) -> dict[Key, int]:
        """Every member's number."""
        return {key: number for number, key in enumerate(self.members)}

    @property
    def me(self) -> Key:
        """This member's node key."""
        return self.key.public

    @property
    def number(self) -> int:
        """This member's number."""
        return self.numbers[self.me]

    @cached_property
    def others(self) -> tuple[Key, ...]:
        """All members but this one, in key order."""
        return tuple(key for key in self.members if key != self.me)

    def ready_of(self, key: Key) -> Ready | None:
        """Another member's READY; None for this member's key and for strangers."""
        others = (ready for ready in self.group.readys if ready.key != self.me)
        return next((ready for ready in others if ready.key == key), None)

    def channel(self, sender: Key, recipient: Key) -> Channel:
        """The sealed channel from `sender` to `recipient`, one of which is this member."""
        other = recipient if sender == self.me else sender
        return self.ephemeral.channel(self.ephemerals[other], self.sid, sender, recipient)
