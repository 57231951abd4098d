"""The electors that decide which base comes after an anchor, and when enough of them have voted.

An anchor is a base that its electors agreed on. Its electors are the members whose updates it holds. For the
first base they are the endpoints that the owners named, or the first group that a tracker formed, or any
`aggregation.quorum` nodes. A vote is a release (or a SUM) in a session on that anchor, and binds its node.

    quorum(V, E - R):  2 |V| > |E - R| + f,  or with f = 0 exactly half of E - R, with the first of E among V

E are the electors, V those whose votes count, R those that resigned for good, f how many electors may lie:
vote twice, or deny a vote. Two quorums of one anchor share more than f voters of those that resigned in
neither (f = 0: dynamic linear voting, Jajodia & Mutchler, ACM TODS 15(2), 1990; f > 0: the masking of Malkhi
& Reiter, Distributed Computing 11(4), 1998, for electors of whom some resigned: docs/quorum.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from protocol.wire.ids import NO_ELECTORS, RESIGNED
from protocol.wire.messages import Announce, Electors, Group, Key, Ready

BY_SIZE = -1
"""As many liars as is usual among so many electors."""
_SEVERAL, _MANY = 7, 16


def usual_liars(electors: int) -> int:
    """How many of so many electors may lie: 0 up to six, 1 from seven on, a third from 16 on.

    With one liar, four of five would be a quorum, and two that are away would stop the other three.
    """
    return electors // 3 if electors >= _MANY else int(electors >= _SEVERAL)


@dataclass(frozen=True)
class Electorate:
    """The electors of an anchor: `members` are node keys, or endpoints if keys are not known yet.

    `least`: if it is not 0, any `least` nodes are a quorum, and `members` is empty. `liars`: how many of them
    may lie (f), or BY_SIZE.
    """

    members: tuple[bytes, ...] = ()
    least: int = 0
    liars: int = BY_SIZE

    @cached_property
    def digest(self) -> bytes:
        """The name of the electorate in READYs: SHA-256 of `least`, f and all `members`."""
        whole = hashlib.sha256(b"murmuration/2/electors" + self.least.to_bytes(4, "big"))
        whole.update(self.tolerated.to_bytes(4, "big"))
        for member in self.members:
            whole.update(len(member).to_bytes(4, "big") + member)
        return whole.digest()

    @property
    def is_unnamed(self) -> bool:
        """Whether a tracker names the electors."""
        return not self.members and not self.least

    @property
    def tolerated(self) -> int:
        """f: how many of these electors may lie."""
        return usual_liars(len(self.members)) if self.liars == BY_SIZE else self.liars

    def needed(self, without: Collection[bytes] = ()) -> int:
        """How many votes make a quorum, whoever casts them."""
        return self.least or self._majority(len(self._known.difference(without)))

    def fewest(self, without: Collection[bytes] = ()) -> int:
        """How many votes make a quorum at least, if the right electors cast them."""
        left = len(self._known.difference(without))
        return self.least or (self._majority(left) if self.tolerated else (left + 1) // 2)

    def _majority(self, left: int) -> int:
        """How many votes make a quorum of so many electors that did not resign."""
        return (left + self.tolerated) // 2 + 1

    @cached_property
    def _known(self) -> frozenset[bytes]:
        return frozenset(self.members)

    def elector(self, announce: Announce) -> bytes | None:
        """The elector that this announcement's node is; None: it is none."""
        return self.elector_at(announce.key, announce.endpoint)

    def elector_at(self, key: Key, endpoint: str) -> bytes | None:
        """The elector that the node with this key and endpoint is; None: it is none."""
        if self.least or key in self._known:
            return key
        name = endpoint.encode()
        return name if name in self._known else None

    def is_quorum(self, voters: Collection[bytes], without: Collection[bytes] = ()) -> bool:
        """Whether these electors are a quorum; `without`: those that resigned, or are gone for good."""
        if self.least:
            return len(voters) >= self.least
        left = self._known.difference(without)
        votes = left.intersection(voters)
        is_half = 0 < 2 * len(votes) == len(left)
        is_tied = not self.tolerated and is_half and self.members[0] in votes
        return is_tied or len(votes) >= self._majority(len(left))

    def resigned(self, announces: Iterable[Announce]) -> frozenset[bytes]:
        """The electors that say in these announcements, all on their anchor, that they resigned."""
        found = (self.elector(announce) for announce in announces if announce.open == (RESIGNED,))
        return frozenset(elector for elector in found if elector is not None)


def of_message(message: Electors) -> Electorate:
    """The electors that a peer counts with."""
    return Electorate(message.members, message.least, message.liars)


def of_keys(keys: Iterable[Key], liars: int = BY_SIZE) -> Electorate:
    """The electors of a base that holds these members' updates."""
    return Electorate(tuple(sorted(keys)), liars=liars)


def of_names(endpoints: Iterable[str], liars: int = BY_SIZE) -> Electorate:
    """The electors of a first base that the owners named by endpoint."""
    return Electorate(tuple(sorted({endpoint.encode() for endpoint in endpoints})), liars=liars)


@dataclass(frozen=True)
class Ballot:
    """How one group counts votes.

    `voters`: the members whose votes count, because they were bound to no other session when they sent READY,
    and the elector that each is. `without`: the electors that a quorum does not need: they resigned, or all
    members declare them gone for good; `gone`: the latter alone.
    """

    electorate: Electorate
    voters: Mapping[Key, bytes]
    without: frozenset[bytes]
    gone: frozenset[bytes] = frozenset()

    def is_quorum(self, keys: Iterable[Key]) -> bool:
        """Whether the votes of these members are a quorum."""
        votes = {self.voters[key] for key in keys if key in self.voters}
        return self.electorate.is_quorum(votes, self.without)

    def outside(self, announces: Iterable[Announce]) -> frozenset[Key]:
        """Who of these is outside, and might be in a rival: a group that has a quorum, too, if f + 1 lie."""
        electorate, members = self.electorate, self.voters.values()
        here = [(announce.key, electorate.elector(announce)) for announce in announces]
        everybody = {name for _, name in here if name} if electorate.least else set(electorate.members)
        outside = everybody.difference(members, self.without)
        liars = sorted(members)[: electorate.tolerated + 1]
        if not electorate.is_quorum({*outside, *liars}, self.without):
            return frozenset()
        return frozenset(key for key, name in here if name in outside)

    def is_dead(
        self, out: Collection[Key], members: Collection[Key], threshold: int, doubted: int = 0
    ) -> bool:
        """Whether a session has no result without these of its `members`, though some of them may lie.

        `out`: who says that it left the session without a release. `threshold`: the releases of a result.
        `doubted`: so many words may be lies, or f if that is more. An elector whose word may be a lie might
        release yet. If any elector may lie, so might all other members.
        """
        liars = max(doubted, self.electorate.tolerated)
        told = [key for key in out if not liars or key in self.voters]
        may_lie = set(sorted(told, key=self._is_needed, reverse=True)[:liars])
        can = set(members).difference(told) | may_lie
        return len(can) < threshold or not self.is_quorum(can)

    def _is_needed(self, key: Key) -> bool:
        """Whether the elector of this member still counts."""
        return self.voters.get(key) not in self.without


def ballot_of(readys: Iterable[Ready], excused: Iterable[Announce], electorate: Electorate) -> Ballot:
    """How a group of these READYs counts votes; every member computes the same ballot."""
    readys = tuple(readys)
    gone = (
        frozenset(readys[0].gone).intersection(*(ready.gone for ready in readys)) if readys else frozenset()
    )
    resigned = electorate.resigned(excused)
    free = [ready.announce for ready in readys if not ready.announce.open]
    voters = {each.key: elector for each in free if (elector := electorate.elector(each)) is not None}
    without = resigned | gone
    here = set(voters.values())
    told = gone.intersection(electorate.members) - resigned - here
    return Ballot(electorate, voters, frozenset(without - here), told)


def strong_ballot(group: Group, electorate: Electorate | None, liars: int = BY_SIZE) -> Ballot | None:
    """The ballot of a group that may make a strong base: its voters are a quorum; None for any other group.

    All members must count with the same electors: for a first base, owners may have named different ones.
    `electorate`: that of the group's base; None: a first base, whose electors the tracker names in the GROUP.
    `liars`: how many of these, or of the electors of a later step, may lie.

    A later step of a run builds on a base that all its members made: they alone are its electors.
    """
    if group.on:
        members = of_keys((ready.key for ready in group.readys), liars)
        return ballot_of(group.readys, (), members) if electorate == members else None
    named = NO_ELECTORS if electorate is None else electorate.digest
    electors = of_keys(group.electors, liars) if electorate is None else electorate
    if any(ready.electors != named for ready in group.readys):
        return None
    ballot = ballot_of(group.readys, group.excused, electors)
    return ballot if ballot.is_quorum(ballot.voters) else None


def weak_allowed(group: Group, known: int) -> bool:
    """Whether a group without a quorum may begin: all are willing, and they are more than half of `known`.

    If owners named different electors for a first base, there can be no quorum, and members need not wait.
    """
    is_first = group.base.anchor == 0
    differ = is_first and len({ready.electors for ready in group.readys}) > 1
    return 2 * len(group.readys) > known and (differ or all(ready.weak for ready in group.readys))
