"""Who is in the swarm: the newest announcement of each peer, when it was last heard, who can be reached.

- known: heard within the last 5 rounds and not gone on purpose; a group must exceed half of them, so
  that of a partition only one side lives;
- candidates: the known that seem alive, lowest key first: the first one coordinates.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from protocol.errors import RemoteProtocolError
from protocol.messages import Announce, Base, Key

REMEMBERED_ROUNDS = 5
MAX_MEMBERS_KNOWN = 1024
CLOCK_SKEW_MS = 120_000


@dataclass(slots=True)
class Member:
    """A peer as this node knows it."""

    announce: Announce
    heard_round: int
    direct: bool
    suspect: bool = False


class Members:
    """The other peers of this swarm, by node key."""

    def __init__(self) -> None:
        self._members: dict[Key, Member] = {}

    def learn(self, announce: Announce, round: int, now: float, direct: bool) -> bool:
        """Take in a verified announcement; True if it is new or newer. `direct`: from the peer itself.

        RemoteProtocolError if it has expired or the table is full.
        """
        if announce.expiry_ms < now * 1000 - CLOCK_SKEW_MS:
            raise RemoteProtocolError("an announcement that has expired")
        member = self._members.get(announce.key)
        if member is None:
            return self._add(announce, round, direct)
        if direct and announce.issued_ms >= member.announce.issued_ms:  # an older one may be a replay
            member.heard_round = max(member.heard_round, round)
            member.suspect = False
        newer = announce.issued_ms > member.announce.issued_ms
        if newer:
            member.announce = announce
            member.direct = member.direct or direct
        return newer

    def _add(self, announce: Announce, round: int, direct: bool) -> bool:
        if len(self._members) >= MAX_MEMBERS_KNOWN:
            raise RemoteProtocolError(f"more than {MAX_MEMBERS_KNOWN} peers")
        self._members[announce.key] = Member(announce, round, direct)
        return True

    def forget(self, key: Key) -> None:
        """Drop a banned peer."""
        self._members.pop(key, None)

    def suspect(self, key: Key) -> None:
        """It could not be reached, or did not answer: rank it last until it is heard again."""
        if key in self._members:
            self._members[key].suspect = True

    def get(self, key: Key) -> Announce | None:
        """The newest announcement of a peer."""
        member = self._members.get(key)
        return member.announce if member else None

    def at(self, endpoint: str) -> Announce | None:
        """The newest announcement that names this endpoint."""
        found = [m.announce for m in self._members.values() if m.announce.endpoint == endpoint]
        return max(found, key=lambda announce: announce.issued_ms, default=None)

    def known(self, round: int) -> frozenset[Key]:
        """The peers heard in the last 5 rounds that have not left."""
        return frozenset(
            key
            for key, member in self._members.items()
            if member.heard_round >= round - REMEMBERED_ROUNDS and not member.announce.leaving
        )

    def live(self, round: int) -> tuple[Key, ...]:
        """The known peers that are not suspect, lowest key first."""
        return tuple(sorted(key for key in self.known(round) if not self._members[key].suspect))

    def announces(self, round: int, limit: int) -> tuple[Announce, ...]:
        """Newest first, at most `limit`, to pass on to a newcomer."""
        known = (self._members[key].announce for key in self.known(round))
        return tuple(sorted(known, key=lambda announce: -announce.issued_ms)[:limit])

    def majority(self, round: int, mine: Base) -> tuple[Base, tuple[Key, ...]] | None:
        """The base that more than half of the known members, oneself included, show; and who shows it."""
        known = self.known(round)
        shown = Counter(self._members[key].announce.base for key in known)
        shown[mine] += 1
        base, count = shown.most_common(1)[0]
        if 2 * count <= len(known) + 1:
            return None
        return base, tuple(sorted(key for key in known if self._members[key].announce.base == base))

    def anyone_above(self, round: int, mine: Base) -> bool:
        """Whether any live peer shows a base that ranks above this one."""
        return any(self._members[key].announce.base.rank > mine.rank for key in self.live(round))

    def showing(self, round: int) -> list[tuple[Base, Key]]:
        """(base, peer) of every live peer, the highest rank first."""
        live = self.live(round)
        shown = [(self._members[key].announce.base, key) for key in live]
        return sorted(shown, key=lambda pair: pair[0].rank, reverse=True)
