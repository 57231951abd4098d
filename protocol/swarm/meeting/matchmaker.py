"""The coordinator's side: collects signed READYs and closes groups. It sees no share and decides no sum.

A room is one swarm: a task and its parameters. A group is closed when every announced, live peer of the
room that offers is READY with the same base, or `linger` after those suffice that are: a quorum of the
base's electors, or, where all of them are willing to go on without, more than half of the known members that
offer (protocol.quorum.electorate). A READY with another base than the group's waits, and its owner is told
what the others show. Who follows is announced, and neither waited for nor counted.

A tracker stands on no base: nodes tell it who their electors are, and of a first base it names them itself,
once: the members of the first group that it closes.

Who was not heard for ANNOUNCE_LIFETIME_S is forgotten, by the coordinator's own clock. What somebody says of
itself counts as heard on a link on which it proved its key alone: the caller sees to that.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from protocol.actions import Action, Named, Send
from protocol.adaptive_timeouts import Pace
from protocol.crypto.node_key import NodeKey
from protocol.crypto.sealing import check_public
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import Electorate, ballot_of, of_keys, weak_allowed
from protocol.swarm.node_state import ANNOUNCE_LIFETIME_S
from protocol.wire import codec
from protocol.wire.ids import NO_ELECTORS, RESIGNED
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Accepted, Announce, Base, Group, Key, Ready

LINGER_CAP_S = 5.0
LINGER_FLOOR_S = 1.0
MAX_ROOMS = 256
MAX_ANNOUNCED = 1024
MAX_ELECTORATES = 16
_NONE = (-1, -1)

Order = tuple[int, int]
"""The (epoch, counter) of an announcement."""


@dataclass(slots=True)
class Room:
    """Who is announced for one swarm, and whose READY is held since when."""

    pace: Pace = field(default_factory=lambda: Pace(LINGER_FLOOR_S, LINGER_CAP_S))
    announced: dict[Key, Announce] = field(default_factory=dict)
    gone: set[Key] = field(default_factory=set)
    readys: dict[Key, tuple[Ready, float]] = field(default_factory=dict)
    used: dict[Key, Order] = field(default_factory=dict)
    """Of the last READY that went into a GROUP, or was taken back: none as early counts again."""
    heard_at: dict[Key, float] = field(default_factory=dict)
    """When each of the announced was heard last (s, this node's clock)."""
    attempt: int = 0
    electorates: OrderedDict[bytes, Electorate] = field(default_factory=OrderedDict)
    """The last ones that were told of, by digest."""
    named: tuple[Key, ...] = ()
    """Whom this coordinator, a tracker, named as electors of the first base."""

    @property
    def offering(self) -> frozenset[Key]:
        """The announced peers that do not follow."""
        return frozenset(key for key, announce in self.announced.items() if not announce.following)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A room, in a form for people: who is announced, and what a group still waits for."""

    task: str
    parameters: bytes
    announced: tuple[Announce, ...]
    unreachable: frozenset[Key]
    ready: frozenset[Key]
    """Whose READYs fit together."""
    needed: int
    """How many of them make a group."""
    groups: int
    """How many were closed since this coordinator came to know the room."""


class Matchmaker:
    """One coordinator's waiting rooms. The shell of it sends to node keys.

    `min_participants`: the coordinator's own floor; the larger of it and the task's counts.
    """

    def __init__(
        self,
        key: NodeKey,
        min_participants: int,
        named: Mapping[tuple[str, bytes], tuple[Key, ...]] | None = None,
    ) -> None:
        """`named`: of a tracker, whom it has named so far, by swarm; None: this is no tracker."""
        self._key = key
        self._min_participants = min_participants
        self._names = named is not None
        self._named = dict(named or {})
        self._rooms: dict[tuple[str, bytes], Room] = {}
        self.deadline: float | None = None

    def room(self, swarm: tuple[str, bytes]) -> Room:
        """The room of a swarm; RemoteProtocolError if there are too many."""
        if swarm not in self._rooms:
            if len(self._rooms) >= MAX_ROOMS:
                raise RemoteProtocolError(f"more than {MAX_ROOMS} swarms")
            self._rooms[swarm] = Room(named=self._named.get(swarm, ()))
        return self._rooms[swarm]

    def learn(self, swarm: tuple[str, bytes], electorate: Electorate) -> None:
        """Somebody counts with these electors."""
        electorates = self.room(swarm).electorates
        electorates[electorate.digest] = electorate
        electorates.move_to_end(electorate.digest)
        while len(electorates) > MAX_ELECTORATES:
            electorates.popitem(last=False)

    def learn_from(self, key: Key, electorate: Electorate) -> None:
        """A peer that is announced here counts with these electors."""
        for swarm in [swarm for swarm, room in self._rooms.items() if key in room.announced]:
            self.learn(swarm, electorate)

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """How each room stands, in the order of their tasks."""
        return tuple(self._waiting(swarm, self._rooms[swarm]) for swarm in sorted(self._rooms))

    def _waiting(self, swarm: tuple[str, bytes], room: Room) -> Waiting:
        keys = self._fitting(room)
        return Waiting(
            *swarm,
            announced=tuple(room.announced[key] for key in sorted(room.announced)),
            unreachable=frozenset(room.gone),
            ready=frozenset(keys),
            needed=self._needed(room, keys, len(room.offering)),
            groups=room.attempt,
        )

    def is_full(self, announce: Announce) -> bool:
        """Whether its swarm has as many peers as a group can have, and this is none of them."""
        room = self._rooms.get(announce.swarm)
        return room is not None and announce.key not in room.announced and len(room.announced) >= MAX_MEMBERS

    def announce(self, announce: Announce, now: float) -> bool:
        """Take in a verified announcement of who is heard now; a later one replaces, a leaving one removes.

        False if it says nothing: earlier than what is known.
        """
        room = self.room(announce.swarm)
        old = room.announced.get(announce.key)
        if old is not None and old.order > announce.order:
            return False
        held = room.readys.get(announce.key)
        if held is not None and _is_void(held[0].announce, announce):
            del room.readys[announce.key]
        if announce.leaving:
            self._remove(room, announce.key)
            return True
        if old is None and len(room.announced) >= MAX_ANNOUNCED:
            raise RemoteProtocolError(f"more than {MAX_ANNOUNCED} peers in a swarm")
        room.announced[announce.key] = announce
        room.heard_at[announce.key] = now
        room.gone.discard(announce.key)
        return True

    def ready(self, ready: Ready, now: float) -> list[Action]:
        """Take in a verified READY meant for this coordinator."""
        if ready.coordinator != self._key.public:
            raise RemoteProtocolError("a READY for another coordinator")
        check_public(ready.ephemeral)
        order = ready.announce.order
        if order <= self.room(ready.announce.swarm).used.get(ready.key, _NONE):
            raise RemoteProtocolError("a READY that was used already")
        self.announce(ready.announce, now)
        room = self.room(ready.announce.swarm)
        held = room.readys.get(ready.key)
        if ready.key not in room.announced:
            raise RemoteProtocolError("a READY of a peer that has left")
        if ready.key not in room.offering:
            raise RemoteProtocolError("a READY of a peer that follows: it offers nothing")
        if held is not None and held[0].announce.order > order:
            raise RemoteProtocolError("a READY earlier than the one that is held")
        room.readys[ready.key] = (ready, now)
        return [Send(ready.key, (Accepted(ready.nonce),))]

    def withdraw(self, key: Key, order: Order) -> None:
        """No READY of this peer up to this order counts any more (it is going elsewhere)."""
        for room in self._rooms.values():
            held = room.readys.get(key)
            if held is not None and held[0].announce.order <= order:
                del room.readys[key]
            if key in room.announced:
                room.used[key] = max(order, room.used.get(key, order))

    def void(self, key: Key) -> None:
        """The READY that is held of this peer does not count."""
        for room in self._rooms.values():
            held = room.readys.pop(key, None)
            if held is not None:
                room.used[key] = held[0].announce.order

    def unreachable(self, key: Key) -> None:
        """Nobody waits for a peer that can not be reached, until it is heard again."""
        for room in self._rooms.values():
            room.readys.pop(key, None)
            if key in room.announced:
                room.gone.add(key)

    def _remove(self, room: Room, key: Key) -> None:
        room.announced.pop(key, None)
        room.readys.pop(key, None)
        room.used.pop(key, None)
        room.heard_at.pop(key, None)
        room.gone.discard(key)

    def announced(self, swarm: tuple[str, bytes], key: Key) -> Announce | None:
        """The latest announcement of a peer of this swarm, if it is here."""
        room = self._rooms.get(swarm)
        return room.announced.get(key) if room is not None else None

    def of_task(self, task: str) -> tuple[Announce, ...]:
        """The announced peers of a task, with whatever parameters."""
        rooms = (room for (name, _), room in self._rooms.items() if name == task)
        return tuple(announce for room in rooms for announce in room.announced.values())

    def expire(self, now: float) -> tuple[Key, ...]:
        """Forget the peers that were not heard for too long; who they were."""
        expired = [
            (room, key)
            for room in self._rooms.values()
            for key, heard_at in room.heard_at.items()
            if now - heard_at >= ANNOUNCE_LIFETIME_S
        ]
        for room, key in expired:
            self._remove(room, key)
        for swarm in [swarm for swarm, room in self._rooms.items() if not room.announced]:
            del self._rooms[swarm]
        return tuple(key for _, key in expired)

    def close_groups(self, now: float, known: int | None = None) -> list[Action]:
        """Send every GROUP that is due, and set `deadline`.

        `known`: how many members a group must exceed half of; None: those that are announced and offer.
        """
        self.expire(now)
        actions: list[Action] = []
        due: list[float] = []
        for room in self._rooms.values():
            at = self._closing_time(room, known)
            if at is not None and at <= now:
                actions += self._close(room)
            elif at is not None:
                due.append(at)
            due += [heard_at + ANNOUNCE_LIFETIME_S for heard_at in room.heard_at.values()]
        self.deadline = min(due, default=None)
        return actions

    def _closing_time(self, room: Room, known: int | None) -> float | None:
        """When the room's group is to be closed: None while there are too few READYs."""
        ordered = self._fitting(room)
        arrivals = [room.readys[key][1] for key in ordered]
        enough = self._enough(room, ordered, len(room.offering) if known is None else known)
        if enough is None:
            return None
        waiting = room.offering - room.gone - set(ordered)
        return arrivals[enough - 1] + room.pace.allowed_s if waiting else arrivals[-1]

    def _close(self, room: Room) -> list[Action]:
        ordered = self._fitting(room)
        arrivals = [room.readys[key][1] for key in ordered]
        room.pace.observe(arrivals[-1] - arrivals[0])
        chosen = self._electors_first(room, ordered)[:MAX_MEMBERS]
        readys = tuple(room.readys.pop(key)[0] for key in sorted(chosen))
        room.used.update({ready.key: ready.announce.order for ready in readys})
        actions = self._name(room, readys)
        unsigned = Group(readys, room.attempt, self._key.public, *self._grounds(room, readys))
        group = codec.sign(unsigned, self._key)
        room.attempt += 1
        return [*actions, *(Send(ready.key, (group,)) for ready in readys)]

    def _electors_first(self, room: Room, ordered: Sequence[Key]) -> list[Key]:
        """Where more come than a group takes, those that it needs."""
        readys = [room.readys[key][0] for key in ordered]
        electorate = self._electorate(room, tuple(readys))
        if electorate is None:
            return list(ordered)
        order = sorted(readys, key=lambda ready: electorate.elector(ready.announce) is None)
        return [ready.key for ready in order]

    def _name(self, room: Room, readys: tuple[Ready, ...]) -> list[Action]:
        """A tracker's first group on a first base: its members are the electors, for good."""
        if not self._is_unnamed(readys[0]) or room.named:
            return []
        swarm = readys[0].announce.swarm
        room.named = self._named[swarm] = tuple(ready.key for ready in readys)
        return [Named(*swarm, room.named)]

    def _is_unnamed(self, ready: Ready) -> bool:
        """Whether the tracker that this is names the electors of this READY's base."""
        return self._names and ready.electors == NO_ELECTORS

    def _grounds(self, room: Room, readys: tuple[Ready, ...]) -> tuple[tuple[Announce, ...], tuple[Key, ...]]:
        """Whom a group has to excuse for its quorum, if anybody; and whom the tracker named."""
        named = room.named if self._is_unnamed(readys[0]) else ()
        excused = self._excusable(room, readys)
        if not excused or self._is_strong(room, readys, ()):
            excused = ()
        return excused, named

    def _excusable(self, room: Room, readys: tuple[Ready, ...]) -> tuple[Announce, ...]:
        """The electors that resigned on this anchor."""
        anchor, inside = readys[0].announce.base.anchor, {ready.key for ready in readys}
        resigned = [
            announce
            for key, announce in room.announced.items()
            if announce.open == (RESIGNED,) and announce.base.anchor == anchor and key not in inside
        ]
        return tuple(sorted(resigned, key=lambda announce: announce.key))[:MAX_MEMBERS]

    def _electorate(self, room: Room, readys: tuple[Ready, ...]) -> Electorate | None:
        """With whom all of these count, if that is known here."""
        if self._is_unnamed(readys[0]):
            return of_keys(room.named) if room.named else None
        return room.electorates.get(readys[0].electors)

    def _is_strong(self, room: Room, readys: tuple[Ready, ...], excused: tuple[Announce, ...]) -> bool:
        """Whether a group of these would have a quorum."""
        if self._is_unnamed(readys[0]) and not room.named:
            return all(self._is_unnamed(ready) for ready in readys)
        electorate = self._electorate(room, readys)
        if electorate is None or len({ready.electors for ready in readys}) > 1:
            return False
        ballot = ballot_of(readys, excused, electorate)
        return ballot.is_quorum(ballot.voters)

    def _is_allowed(self, room: Room, readys: tuple[Ready, ...], known: int) -> bool:
        """Whether a group of these may be closed."""
        is_first = self._is_unnamed(readys[0]) and not room.named
        if is_first:
            return 2 * len(readys) > known
        is_strong = self._is_strong(room, readys, self._excusable(room, readys))
        return is_strong or weak_allowed(Group(readys, 0, b""), known)

    def _least(self, room: Room, keys: Iterable[Key]) -> int:
        """How few members a group of these may have, whoever they are."""
        return max((self._min_participants, *(room.readys[key][0].announce.min_participants for key in keys)))

    def _enough(self, room: Room, ordered: Sequence[Key], known: int) -> int | None:
        """How many of these, in the order of their coming, make a group; None: all of them do not."""
        readys = tuple(room.readys[key][0] for key in ordered)
        least = self._least(room, ordered)
        if len(ordered) < least or not self._is_allowed(room, readys, known):
            return None
        sizes = range(least, len(ordered) + 1)
        return next((size for size in sizes if self._is_allowed(room, readys[:size], known)), len(ordered))

    def _needed(self, room: Room, ordered: Sequence[Key], known: int) -> int:
        """How many members a group needs, as far as that is a number."""
        readys = tuple(room.readys[key][0] for key in ordered)
        electorate = self._electorate(room, readys) if readys else None
        if electorate is None or all(ready.weak for ready in readys):
            return max(self._least(room, ordered), min(known // 2 + 1, MAX_MEMBERS))
        return max(self._least(room, ordered), electorate.least or len(electorate.members) // 2 + 1)

    def _fitting(self, room: Room) -> tuple[Key, ...]:
        """Whose READYs fit together, in the order of their coming.

        Those with a quorum on the highest base that has one; else those whose base most show, the higher one
        on a tie: of them those who are willing to go on without a quorum, if anybody is.
        """
        by_base: dict[Base, list[Key]] = {}
        for key in sorted(room.readys, key=lambda key: (room.readys[key][1], key)):
            by_base.setdefault(room.readys[key][0].announce.base, []).append(key)
        for base in sorted(by_base, key=lambda base: base.rank, reverse=True):
            for alike in self._alike(room, by_base[base]):
                readys = tuple(room.readys[key][0] for key in alike)
                enough = len(alike) >= self._least(room, alike)
                if enough and self._is_strong(room, readys, self._excusable(room, readys)):
                    return alike
        if not by_base:
            return ()
        return self._willing(room, by_base[max(by_base, key=lambda base: (len(by_base[base]), base.rank))])

    def _willing(self, room: Room, keys: list[Key]) -> tuple[Key, ...]:
        """Those who would join a weak group: who has not waited enough does not keep it from the others."""
        electors = {room.readys[key][0].electors for key in keys}
        willing = tuple(key for key in keys if room.readys[key][0].weak)
        return willing if willing and len(electors) == 1 else tuple(keys)

    def _alike(self, room: Room, keys: list[Key]) -> list[tuple[Key, ...]]:
        """Those that count with the same electors."""
        of: dict[bytes, list[Key]] = {}
        for key in keys:
            of.setdefault(room.readys[key][0].electors, []).append(key)
        return [tuple(of[digest]) for digest in sorted(of)]

    def outranking(self, ready: Ready) -> tuple[Announce, ...]:
        """The announcements with a higher base than a READY's: its owner has something to fetch."""
        room = self.room(ready.announce.swarm)
        mine = ready.announce.base.rank
        return tuple(announce for announce in room.announced.values() if announce.base.rank > mine)


def _is_void(then: Announce, now: Announce) -> bool:
    """Whether a READY's owner started anew, ended the round, changed its base or votes, or follows since."""
    before = (then.instance, then.round, then.base, then.open)
    return now.following or before != (now.instance, now.round, now.base, now.open)
