"""The members of the swarm: each peer's latest announcement, when it was last heard, whether it is reachable.

- known: heard within the last 5 rounds and has not left; a peer known only from others' statements is known
  for 30 s;
- offering: the known peers that do not follow; a weak group needs more than half of them, so that only one
  side of a partition can form one;
- live: the known peers that are not suspect, followers too: they get all news and serve what they hold;
- candidates: the live peers that offer, lowest key first: the first one coordinates.

Of two announcements the later one is valid, by (epoch, counter) and not by any clock; nobody can tell how old
one is. Only a message from the peer itself, on a link on which it proved its key, shows that it is present.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from protocol.errors import RemoteProtocolError
from protocol.swarm.node_state import ANNOUNCE_LIFETIME_S, NodeState
from protocol.wire.messages import Announce, Base, Goodbye, Key, Parting, Rank

REMEMBERED_ROUNDS = 5
MAX_MEMBERS_KNOWN = 1024
LOST_AFTER_S = 2 * ANNOUNCE_LIFETIME_S
"""So long a peer that cannot be reached from here counts for turns though nobody has news of it."""
FORGOTTEN_AFTER_S = 600.0
"""How long a node remembers peers that left or that only others named; less if the table is full."""


@dataclass(slots=True)
class Member:
    """A peer as this node knows it."""

    announce: Announce
    heard_round: int
    learned_at: float
    """When the announcement came (s, this node's clock)."""
    live: bool
    """Whether the peer itself was heard since this node started."""
    suspect: bool = False
    is_silent: bool = False
    """Whether this node lacks something of it, or cannot reach it, and has not heard it since."""
    is_lost: bool = False
    """Whether this node cannot reach it, and nobody has had news of it for a while."""
    is_hearsay: bool = False
    """Whether only others named it, and that too long ago for it to count."""
    alone_at: float = -math.inf
    """When it last showed that it had ended a round on the base that it shows (s, this node's clock)."""
    parting: Parting | None = None
    """Why it left, as it said in its GOODBYE."""

    @property
    def counts_no_more(self) -> bool:
        """Whether this node may forget the peer at no loss."""
        return self.announce.leaving or self.is_hearsay

    def is_known(self, round: int) -> bool:
        """Whether it counts in this round of the node's: it was heard lately, or named, and has not left."""
        return self.heard_round >= round - REMEMBERED_ROUNDS and not self.counts_no_more


def _alone_at(member: Member, announce: Announce, now: float) -> float:
    """`Member.alone_at` with this later announcement."""
    before = member.announce
    if (before.instance, before.base) != (announce.instance, announce.base):
        return -math.inf
    return now if announce.round > before.round else member.alone_at


T = TypeVar("T")
View = Callable[["Members"], T]


def _kept(view: View[T]) -> View[T]:
    """Keep what a view of the table shows in the node's round until the table changes."""

    @wraps(view)
    def shown(members: Members) -> T:
        views, place = members.views, (view, members.round)
        if place not in views:
            views[place] = view(members)
        found: T = views[place]
        return found

    return shown


class Members:
    """The other peers of this swarm, by node key, in the order of their latest news."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._members: dict[Key, Member] = {}
        self.views: dict[tuple[object, int], Any] = {}
        """What the table shows, as far as somebody asked since its last change (`_kept`)."""

    @property
    def round(self) -> int:
        """This node's round."""
        return self._state.round

    def learn(self, announce: Announce, now: float, live: bool) -> bool:
        """Process a verified announcement; True if it is new or later. `live`: from the peer itself, now.

        Raises RemoteProtocolError if the table is full.
        """
        self.views.clear()
        member = self._members.get(announce.key)
        if member is None:
            if len(self._members) >= MAX_MEMBERS_KNOWN:
                gone = next((key for key, each in self._members.items() if each.counts_no_more), None)
                if gone is None:
                    raise RemoteProtocolError(f"more than {MAX_MEMBERS_KNOWN} peers")
                del self._members[gone]
            self._members[announce.key] = Member(announce, self.round, now, live)
            return True
        if live and announce.order >= member.announce.order:  # an older one may be a replay
            member.heard_round = max(member.heard_round, self.round)
            member.suspect, member.is_hearsay, member.live = False, False, True
            member.is_silent = False
        later = announce.order > member.announce.order
        if later:
            member.alone_at = _alone_at(member, announce, now)
            member.announce, member.learned_at, member.is_hearsay = announce, now, False
            member.is_lost = False
            member.parting = member.parting if announce.leaving else None
            self._members[announce.key] = self._members.pop(announce.key)
        return later

    def expire(self, now: float) -> None:
        """Stop counting peers that only others named, after a while; forget those that do not count."""
        self.views.clear()
        for member in self._members.values():
            if not member.live and now - member.learned_at >= ANNOUNCE_LIFETIME_S:
                member.is_hearsay = True
            if now - member.learned_at >= LOST_AFTER_S:
                member.is_lost = member.suspect
        self._members = {
            key: member
            for key, member in self._members.items()
            if not (member.counts_no_more and now - member.learned_at >= FORGOTTEN_AFTER_S)
        }

    def forget(self, key: Key) -> None:
        """Drop a peer that is banned, or may not take part any more."""
        self.views.clear()
        self._members.pop(key, None)

    def suspect(self, key: Key) -> None:
        """This peer could not be reached or did not answer: it is not live until it is heard again."""
        if key in self._members:
            self.views.clear()
            self._members[key].suspect = self._members[key].is_silent = True

    def miss(self, key: Key) -> None:
        """Something of this peer is missing here: perhaps the link to it is cut, until it is heard again."""
        if key in self._members:
            self._members[key].is_silent = True

    @property
    def silent(self) -> frozenset[Key]:
        """The peers that have not left, and to which this node's link may be cut."""
        return frozenset(key for key, each in self._members.items() if each.is_silent and self.offers(key))

    def parts(self, goodbye: Goodbye) -> None:
        """This peer says why it is about to leave; a reason that this version does not know is none.

        Raises RemoteProtocolError if the peer, or the start that ends, is not known.
        """
        member = self._members.get(goodbye.key)
        if member is None or member.announce.instance != goodbye.instance:
            raise RemoteProtocolError("a GOODBYE of nobody who is here")
        member.parting = Parting(goodbye.why) if goodbye.why in set(Parting) else None

    def parting(self, key: Key) -> Parting | None:
        """Why a peer left, if it said so."""
        member = self._members.get(key)
        return member.parting if member else None

    def skipped(self, rounds: int) -> None:
        """This node missed this many rounds: they do not count as the peers' silence."""
        self.views.clear()
        for member in self._members.values():
            member.heard_round += max(0, rounds)

    def get(self, key: Key) -> Announce | None:
        """The latest announcement of a peer."""
        member = self._members.get(key)
        return member.announce if member else None

    def announced(self, keys: Iterable[Key]) -> tuple[Announce, ...]:
        """The latest announcements of those of these peers that are here."""
        return tuple([self._members[key].announce for key in keys if key in self._members])

    def alone_at(self, key: Key) -> float:
        """When a known peer last ended a round without a sum, on the base that it shows; -inf: never."""
        return self._members[key].alone_at

    def counts(self, key: Key) -> bool:
        """Whether a peer offers, and is reached from here or has shown itself to others of late."""
        return self.offers(key) and not self._members[key].is_lost

    def offers(self, key: Key) -> bool:
        """Whether a peer is known that neither follows nor has left, as far as it has said."""
        announce = self.get(key)
        return announce is not None and not (announce.leaving or announce.following)

    @property
    def every(self) -> tuple[Member, ...]:
        """All members, also silent ones and those that left, in the order of their keys."""
        return tuple(self._members[key] for key in sorted(self._members))

    def at(self, endpoint: str) -> Announce | None:
        """The announcement that names this endpoint; of several the latest to arrive."""
        found = (m.announce for m in reversed(self._members.values()) if m.announce.endpoint == endpoint)
        return next(found, None)

    @property
    def latest(self) -> tuple[Announce, ...]:
        """The latest announcement of each member."""
        return tuple([member.announce for member in self._members.values()])

    def knows(self, key: Key) -> bool:
        """Whether this peer is one of the `known`."""
        member = self._members.get(key)
        return member is not None and member.is_known(self.round)

    @property
    @_kept
    def known(self) -> frozenset[Key]:
        """The peers heard in the last 5 rounds, or lately named by others, that have not left."""
        round, members = self.round, self._members.items()
        return frozenset([key for key, each in members if each.is_known(round)])

    @property
    @_kept
    def offering(self) -> frozenset[Key]:
        """The known peers that do not follow: they make new bases."""
        round, members = self.round, self._members.items()
        return frozenset(
            [key for key, each in members if each.is_known(round) and not each.announce.following]
        )

    @property
    @_kept
    def candidates(self) -> tuple[Key, ...]:
        """The live peers that offer and so may coordinate, lowest key first."""
        return tuple([key for key in self.live if not self._members[key].announce.following])

    @property
    @_kept
    def live(self) -> tuple[Key, ...]:
        """The known peers that are not suspect, lowest key first."""
        round, members = self.round, self._members.items()
        return tuple(sorted([key for key, each in members if not each.suspect and each.is_known(round)]))

    def announces(self, limit: int) -> tuple[Announce, ...]:
        """At most `limit` announcements to pass on to a newcomer, the latest to arrive first."""
        known = self.known
        latest_first = [m.announce for key, m in reversed(self._members.items()) if key in known]
        return tuple(latest_first[:limit])

    def majority(self, fewest: int) -> tuple[Base, tuple[Key, ...]] | None:
        """The base that more than half of the voters show, and the others that show it; None without one.

        The voters are the known members that offer, and this node if it offers. A follower fetched
        its base because the others show it: counting it would count them twice while the base is new, and
        keep other followers from a newer base while it is old. But if fewer offer than make a group
        (`fewest`), they can make no base, and the last node with a budget must not decide for all: then all
        known members and this node vote.
        """
        mine, voters = self._state.base, self.offering
        votes_too = not self._state.following
        if len(voters) + votes_too < fewest:
            voters, votes_too = self.known, True
        shown = Counter(self._members[key].announce.base for key in voters)
        shown[mine] += votes_too
        base, count = shown.most_common(1)[0]
        if 2 * count <= len(voters) + votes_too:
            return None
        return base, tuple(sorted(key for key in voters if self._members[key].announce.base == base))

    def who_shows(self, base: Base) -> frozenset[Key]:
        """The peers whose latest announcement shows this base, even if they left."""
        return frozenset(key for key, member in self._members.items() if member.announce.base == base)

    @property
    def anyone_above(self) -> bool:
        """Whether any live peer shows a base that ranks above this node's."""
        highest = self._highest
        return highest is not None and highest > self._state.base.rank

    @property
    @_kept
    def _highest(self) -> Rank | None:
        """The highest rank of a base that a live peer shows."""
        shown = [self._members[key].announce.base for key in self.live]
        bases = {id(base): base for base in shown}  # most are one object: the codec builds equal ones once
        return max([base.rank for base in bases.values()], default=None)

    @property
    def showing(self) -> list[tuple[Base, Key]]:
        """(base, peer) of every live peer, the highest rank first.

        For one base, peers that offer come before followers, which hold no certificate of a base they
        fetched.
        """
        live = sorted(self.live, key=lambda key: self._members[key].announce.following)
        shown = [(self._members[key].announce.base, key) for key in live]
        return sorted(shown, key=lambda pair: pair[0].rank, reverse=True)
