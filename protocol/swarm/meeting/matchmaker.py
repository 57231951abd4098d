"""The coordinator's side: collects signed READYs and closes groups. It sees no share and decides no sum.

A room is one swarm: a task and its parameters. The coordinator closes a group when every announced, live peer
of the room that offers is READY with the same base, or a linger time after the READYs suffice: their senders
are a quorum of the base's electors, or all accept a weak base and they are more than half of the known
members that offer (protocol.quorum.electorate). All groups together wait for one peer no longer than a share
of the time (`Room.charge`), so that nobody's pace becomes that of all. A READY with another base than the
group's waits, and its sender learns which bases the others show. A follower is announced, but neither waited
for nor counted.

Of two READYs of which one's sender would leave the other's out (`LeftOut`), one waits, as long as the rest
makes a group that is as good. The one waits that is at odds with most, so that nobody decides alone; it is
told by whom it was left out. Of two that name each other, as their link is cut, the same one waits for long:
the other is in all sums. A group that could form before can form still, whoever is at odds with whom
(`_apart`).

A tracker holds no base. Nodes send it their electors; those of a first base it names itself, once: the
members of the first group that it closes.

The coordinator forgets a peer that it has not heard for ANNOUNCE_LIFETIME_S, by its own clock. A peer counts
as heard only on a link on which it proved its key; the caller checks this.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from protocol.actions import Action, Named, Send
from protocol.adaptive_timeouts import Pace
from protocol.crypto.node_key import NodeKey
from protocol.crypto.sealing import check_public
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import BY_SIZE, Electorate, ballot_of, of_keys, weak_allowed
from protocol.swarm.node_state import ANNOUNCE_LIFETIME_S
from protocol.wire import signing
from protocol.wire.ids import NO_ELECTORS, RESIGNED
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Accepted, Announce, Base, Group, Key, LeftOut, Ready

LINGER_CAP_S = 5.0
LINGER_FLOOR_S = 1.0
WAITED_FOR = 5
"""How many groups may close without a peer before they no longer wait for it each time."""
WAITING_SHARE = 0.1
"""What part of a room's time its groups may wait for one peer, beside LINGER_CAP_S once."""
APART_S = 20.0
"""A group with two members that would leave each other out waits this long for others in their place."""
ASIDE = 64
"""For so many groups in a row one of two waits that would leave each other out, and then the other one."""
MAX_ROOMS = 256
MAX_ANNOUNCED = 1024
MAX_ELECTORATES = 16
_NONE = (-1, -1)

Order = tuple[int, int]
"""The (epoch, counter) of an announcement."""


@dataclass(slots=True)
class Room:
    """The peers announced for one swarm, and the READYs held, each with its time of arrival."""

    pace: Pace = field(default_factory=lambda: Pace(LINGER_FLOOR_S, LINGER_CAP_S))
    announced: dict[Key, Announce] = field(default_factory=dict)
    gone: set[Key] = field(default_factory=set)
    readys: dict[Key, tuple[Ready, float]] = field(default_factory=dict)
    used: dict[Key, Order] = field(default_factory=dict)
    """The order of each peer's last READY that was used or withdrawn: only later READYs count."""
    heard_at: dict[Key, float] = field(default_factory=dict)
    """When each announced peer was last heard (s, this node's clock)."""
    apart: dict[Key, tuple[bytes, tuple[Key, ...]]] = field(default_factory=dict)
    """Whom each peer would leave out, and the nonce of the READY for which it says so."""
    aside: Counter[Key] = field(default_factory=Counter)
    """How many groups set each peer aside: others would leave it out."""
    waiting: set[Key] = field(default_factory=set)
    """Who was set aside, and in no group since."""
    missed: Counter[Key] = field(default_factory=Counter)
    """How many groups closed here before each peer was READY; half of them, each time that it was in one."""
    credit: dict[Key, float] = field(default_factory=dict)
    """How long groups may still wait for a peer (s); unless it stands here, LINGER_CAP_S."""
    closed_at: float | None = None
    """When the last group closed (s, this node's clock)."""
    attempt: int = 0
    electorates: OrderedDict[bytes, Electorate] = field(default_factory=OrderedDict)
    """The electorates that nodes sent last, by digest."""
    named: tuple[Key, ...] = ()
    """The electors of the first base, if this coordinator is a tracker that named them."""
    liars: int = BY_SIZE
    """How many of them may lie, as the nodes that leave their names to the tracker said last."""

    @property
    def offering(self) -> frozenset[Key]:
        """The announced peers that do not follow."""
        return frozenset(key for key, announce in self.announced.items() if not announce.following)

    def waits_for(self, fitting: Collection[Key]) -> frozenset[Key]:
        """The peers, apart from these, whose READYs a group waits for.

        Who has missed WAITED_FOR groups is waited for at each power of two of them only, so that a peer that
        is much slower than the others costs them little.
        """
        late = self.offering - self.gone - set(fitting)
        counts = {key: self.missed[key] for key in late}
        return frozenset(key for key, n in counts.items() if n < WAITED_FOR or n.bit_count() == 1)

    def patience_s(self, late: Collection[Key]) -> float:
        """How long a group may wait for the last of these, once all others are READY."""
        return max((self.credit.get(key, LINGER_CAP_S) for key in late), default=0.0)

    def charge(self, waits: Mapping[Key, float], now: float) -> None:
        """A group closes now that has waited so long for each of these: from their credit.

        All have earned WAITING_SHARE of the time since the group before. So all groups together wait no
        longer for a peer than LINGER_CAP_S and that share of the time, however its READYs come.
        """
        earned = 0.0 if self.closed_at is None else WAITING_SHARE * (now - self.closed_at)
        self.closed_at = now
        for key in self.credit.keys() | waits.keys():
            left = self.credit.get(key, LINGER_CAP_S) + earned - waits.get(key, 0.0)
            self.credit[key] = min(LINGER_CAP_S, max(0.0, left))

    def closed(self, chosen: Collection[Key], kept_out: Collection[Key] = ()) -> None:
        """A group of these was closed: all others that are here and offer have missed it.

        `kept_out`: others, for which it did not wait because of whom they are at odds with.
        """
        self.missed.update(self.offering - self.gone - {*chosen, *kept_out})
        for key in chosen:
            self.missed[key] //= 2
        self.waiting.difference_update(chosen)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A room, in a form for people: the announced peers, and what a group still waits for."""

    task: str
    parameters: bytes
    announced: tuple[Announce, ...]
    unreachable: frozenset[Key]
    ready: frozenset[Key]
    """The peers whose READYs fit together."""
    needed: int
    """How many of them make a group."""
    groups: int
    """How many groups of the room this coordinator has closed."""


class Matchmaker:
    """One coordinator's waiting rooms. Its Sends go to node keys.

    `min_participants`: the coordinator's own lower bound; the larger of it and the task's applies.
    """

    def __init__(
        self,
        key: NodeKey,
        min_participants: int,
        named: Mapping[tuple[str, bytes], tuple[Key, ...]] | None = None,
    ) -> None:
        """`named`: the electors that a tracker has named so far, by swarm; None: not a tracker."""
        self._key = key
        self._min_participants = min_participants
        self._names = named is not None
        self._named = dict(named or {})
        self._rooms: dict[tuple[str, bytes], Room] = {}
        self.deadline: float | None = None

    def room(self, swarm: tuple[str, bytes]) -> Room:
        """The room of a swarm, new if need be. Raises RemoteProtocolError if there are too many."""
        if swarm not in self._rooms:
            if len(self._rooms) >= MAX_ROOMS:
                raise RemoteProtocolError(f"more than {MAX_ROOMS} swarms")
            self._rooms[swarm] = Room(named=self._named.get(swarm, ()))
        return self._rooms[swarm]

    def learn(self, swarm: tuple[str, bytes], electorate: Electorate) -> None:
        """Remember electors that a node of this swarm counts with; none: those that a tracker names."""
        room = self.room(swarm)
        if electorate.is_unnamed:
            room.liars = electorate.liars
            return
        electorates = room.electorates
        electorates[electorate.digest] = electorate
        electorates.move_to_end(electorate.digest)
        while len(electorates) > MAX_ELECTORATES:
            electorates.popitem(last=False)

    def learn_from(self, key: Key, electorate: Electorate) -> None:
        """Remember the electors that an announced peer counts with."""
        for swarm in [swarm for swarm, room in self._rooms.items() if key in room.announced]:
            self.learn(swarm, electorate)

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """The state of each room, in the order of their tasks."""
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

    def unready(self, swarm: tuple[str, bytes]) -> frozenset[Key]:
        """The announced peers of a swarm that offer, can be reached, and are not READY yet."""
        room = self._rooms.get(swarm)
        return frozenset() if room is None else room.offering - room.gone - room.readys.keys()

    def is_full(self, announce: Announce) -> bool:
        """Whether the peer is new to a swarm that already has as many peers as a group can have."""
        room = self._rooms.get(announce.swarm)
        return room is not None and announce.key not in room.announced and len(room.announced) >= MAX_MEMBERS

    def announce(self, announce: Announce, now: float) -> bool:
        """Process a verified announcement by its own peer; a later one replaces, a leaving one removes.

        Returns False if it is earlier than the known one. Raises RemoteProtocolError if the room is full.
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
        if old is not None and old.instance != announce.instance:
            room.missed.pop(announce.key, None)
            room.credit.pop(announce.key, None)
        room.announced[announce.key] = announce
        room.heard_at[announce.key] = now
        room.gone.discard(announce.key)
        return True

    def ready(self, ready: Ready, now: float) -> list[Action]:
        """Process a verified READY and accept it.

        Raises RemoteProtocolError if it names another coordinator, is used or earlier than the one held, or
        its peer has left or follows.
        """
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
        if room.announced[ready.key].following:
            raise RemoteProtocolError("a READY of a peer that follows: it offers nothing")
        if held is not None and held[0].announce.order > order:
            raise RemoteProtocolError("a READY earlier than the one that is held")
        room.readys[ready.key] = (ready, now)
        return [Send(ready.key, (Accepted(ready.nonce),))]

    def leave_out(self, swarm: tuple[str, bytes], key: Key, asked: LeftOut) -> None:
        """Note whom an announced peer would leave out; it counts only with the READY that it names."""
        room = self._rooms.get(swarm)
        if room is not None and key in room.announced:
            room.apart[key] = asked.nonce, asked.keys

    def leave_out_for(self, key: Key, asked: LeftOut) -> None:
        """Note whom a peer would leave out in each swarm in which it is announced."""
        for swarm in self._rooms:
            self.leave_out(swarm, key, asked)

    def withdraw(self, key: Key, order: Order) -> None:
        """Void this peer's READYs up to this order: it has sent a later one to another coordinator."""
        for room in self._rooms.values():
            held = room.readys.get(key)
            if held is not None and held[0].announce.order <= order:
                del room.readys[key]
            if key in room.announced:
                room.used[key] = max(order, room.used.get(key, order))

    def void(self, key: Key) -> None:
        """Void the READY that is held of this peer."""
        for room in self._rooms.values():
            held = room.readys.pop(key, None)
            if held is not None:
                room.used[key] = held[0].announce.order

    def unreachable(self, key: Key) -> None:
        """Stop waiting for a peer that cannot be reached, until it is heard again."""
        for room in self._rooms.values():
            room.readys.pop(key, None)
            if key in room.announced:
                room.gone.add(key)

    def _remove(self, room: Room, key: Key) -> None:
        room.announced.pop(key, None)
        room.readys.pop(key, None)
        room.used.pop(key, None)
        room.heard_at.pop(key, None)
        room.apart.pop(key, None)
        room.missed.pop(key, None)
        room.aside.pop(key, None)
        room.waiting.discard(key)
        room.credit.pop(key, None)
        room.gone.discard(key)

    def announced(self, swarm: tuple[str, bytes], key: Key) -> Announce | None:
        """The latest announcement of a peer of this swarm; None if there is none."""
        room = self._rooms.get(swarm)
        return room.announced.get(key) if room is not None else None

    def of_task(self, task: str) -> tuple[Announce, ...]:
        """The announced peers of a task, whatever their parameters."""
        rooms = (room for (name, _), room in self._rooms.items() if name == task)
        return tuple(announce for room in rooms for announce in room.announced.values())

    def expire(self, now: float) -> tuple[Key, ...]:
        """Forget the peers not heard for ANNOUNCE_LIFETIME_S; returns their keys."""
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

        `known`: the number of members of which a weak group needs more than half; None: those that are
        announced and offer.
        """
        self.expire(now)
        actions: list[Action] = []
        due: list[float] = []
        for room in self._rooms.values():
            at = self._closing_time(room, known)
            if at is not None and at <= now:
                actions += self._close(room, known, now)
            elif at is not None:
                due.append(at)
            due += [heard_at + ANNOUNCE_LIFETIME_S for heard_at in room.heard_at.values()]
        self.deadline = min(due, default=None)
        return actions

    def _closing_time(self, room: Room, known: int | None) -> float | None:
        """When to close the room's group; None while there are too few READYs."""
        if not room.readys:
            return None
        fitting = self._fitting(room)
        known = len(room.offering) if known is None else known
        ordered = self._apart(room, fitting, known)
        arrivals = [room.readys[key][1] for key in ordered]
        enough = self._enough(room, ordered, known)
        if enough is None:
            return None
        late = room.waits_for(fitting) - self._again(room, fitting)
        if not late:
            return max(room.readys[key][1] for key in fitting)
        if self._at_odds(room, ordered):
            return arrivals[enough - 1] + APART_S
        return min(arrivals[enough - 1] + room.pace.allowed_s, arrivals[-1] + room.patience_s(late))

    def _close(self, room: Room, known: int | None, now: float) -> list[Action]:
        known = len(room.offering) if known is None else known
        fitting = self._fitting(room)
        ordered = self._apart(room, fitting, known)
        aside = set(fitting).difference(ordered)
        told = self._set_aside(room, fitting, aside)
        again = self._again(room, fitting)
        room.aside.update(aside)
        room.waiting.update(aside)
        arrivals = [room.readys[key][1] for key in ordered]
        room.pace.observe(arrivals[-1] - arrivals[0])
        enough = self._enough(room, ordered, known) or len(ordered)
        room.charge(self._waits(room, ordered, enough, now), now)
        chosen = self._electors_first(room, ordered)[:MAX_MEMBERS]
        room.closed(chosen, aside | again)
        readys = tuple(room.readys.pop(key)[0] for key in sorted(chosen))
        room.used.update({ready.key: ready.announce.order for ready in readys})
        for ready in readys:
            room.apart.pop(ready.key, None)
        actions = self._name(room, readys)
        unsigned = Group(readys, room.attempt, self._key.public, *self._grounds(room, readys))
        group = signing.sign(unsigned, self._key)
        room.attempt += 1
        return [*actions, *(Send(ready.key, (group,)) for ready in readys), *told]

    def _waits(self, room: Room, ordered: Sequence[Key], enough: int, now: float) -> dict[Key, float]:
        """How long a group of these, closed now, has waited for each peer alone, once there were `enough`."""
        arrivals = [room.readys[key][1] for key in ordered]
        gaps = zip(ordered[enough:], pairwise(arrivals[enough - 1 :]), strict=True)
        fitting = self._fitting(room)
        late = room.waits_for(fitting) - self._again(room, fitting)
        return {key: at - before for key, (before, at) in gaps} | dict.fromkeys(late, now - arrivals[-1])

    def _again(self, room: Room, fitting: Collection[Key]) -> frozenset[Key]:
        """The peers that would only be set aside again, each by one that it would leave out itself."""
        return frozenset(
            other
            for key in fitting
            for other in self._wishes(room, key)
            if other in room.waiting
            and room.aside[other] - room.aside[key] < ASIDE
            and key in room.apart.get(other, (b"", ()))[1]
        )

    def _set_aside(self, room: Room, fitting: Sequence[Key], aside: Collection[Key]) -> list[Action]:
        """What the peers are told whose READYs others would leave out: who they are."""
        wishes = {by: self._wishes(room, by) for by in sorted(fitting)}
        askers = {key: tuple(by for by in wishes if key in wishes[by]) for key in sorted(aside)}
        return [Send(key, (LeftOut(room.readys[key][0].nonce, by),)) for key, by in askers.items() if by]

    def _electors_first(self, room: Room, ordered: Sequence[Key]) -> list[Key]:
        """These peers, electors first, so that a group that cannot hold all takes the electors."""
        readys = [room.readys[key][0] for key in ordered]
        electorate = self._electorate(room, tuple(readys))
        if electorate is None:
            return list(ordered)
        order = sorted(readys, key=lambda ready: electorate.elector(ready.announce) is None)
        return [ready.key for ready in order]

    def _name(self, room: Room, readys: tuple[Ready, ...]) -> list[Action]:
        """Name the electors if this is a tracker's first group on a first base: its members, for good."""
        if not self._is_unnamed(readys[0]) or room.named:
            return []
        swarm = readys[0].announce.swarm
        room.named = self._named[swarm] = tuple(ready.key for ready in readys)
        return [Named(*swarm, room.named)]

    def _is_unnamed(self, ready: Ready) -> bool:
        """Whether this is a tracker, and it names the electors of this READY's base."""
        return self._names and ready.electors == NO_ELECTORS

    def _grounds(self, room: Room, readys: tuple[Ready, ...]) -> tuple[tuple[Announce, ...], tuple[Key, ...]]:
        """The announcements that a group must excuse for its quorum, if any; the named electors."""
        named = room.named if self._is_unnamed(readys[0]) else ()
        excused = self._excusable(room, readys)
        if not excused or self._is_strong(room, readys, ()):
            excused = ()
        return excused, named

    def _excusable(self, room: Room, readys: tuple[Ready, ...]) -> tuple[Announce, ...]:
        """The announcements of electors that resigned on this anchor, in key order."""
        anchor, announced = readys[0].announce.base.anchor, room.announced.values()
        resigned = [each for each in announced if each.open == (RESIGNED,) and each.base.anchor == anchor]
        outside = [each for each in resigned if all(each.key != ready.key for ready in readys)]
        return tuple(sorted(outside, key=lambda announce: announce.key))[:MAX_MEMBERS]

    def _electorate(self, room: Room, readys: tuple[Ready, ...]) -> Electorate | None:
        """The electorate that all of these count with, if this coordinator knows it."""
        if self._is_unnamed(readys[0]):
            return of_keys(room.named, room.liars) if room.named else None
        return room.electorates.get(readys[0].electors)

    def _is_strong(self, room: Room, readys: tuple[Ready, ...], excused: tuple[Announce, ...]) -> bool:
        """Whether a group of these READYs would have a quorum."""
        if self._is_unnamed(readys[0]) and not room.named:
            return all(self._is_unnamed(ready) for ready in readys)
        electorate = self._electorate(room, readys)
        if electorate is None or len({ready.electors for ready in readys}) > 1:
            return False
        ballot = ballot_of(readys, excused, electorate)
        return ballot.is_quorum(ballot.voters)

    def _is_allowed(self, room: Room, readys: tuple[Ready, ...], known: int) -> bool:
        """Whether a group of these READYs may be closed."""
        is_first = self._is_unnamed(readys[0]) and not room.named
        if is_first:
            return 2 * len(readys) > known
        is_strong = self._is_strong(room, readys, self._excusable(room, readys))
        return is_strong or weak_allowed(Group(readys, 0, b""), known)

    def _least(self, room: Room, keys: Iterable[Key]) -> int:
        """The least number of members of a group of these peers, whoever they are."""
        return max((self._min_participants, *(room.readys[key][0].announce.min_participants for key in keys)))

    def _enough(self, room: Room, ordered: Sequence[Key], known: int) -> int | None:
        """How many of these, in order of arrival, make a group; None if not even all do."""
        readys = tuple(room.readys[key][0] for key in ordered)
        least = self._least(room, ordered)
        if len(ordered) < least or not self._is_allowed(room, readys, known):
            return None
        sizes = range(max(least, self._fewest(room, readys, least, known)), len(ordered) + 1)
        return next((size for size in sizes if self._is_allowed(room, readys[:size], known)), len(ordered))

    def _fewest(self, room: Room, readys: tuple[Ready, ...], least: int, known: int) -> int:
        """How many of these, in their order, make a group at least: fewer are no quorum, and half or less.

        The first `least` do without the most electors: who joins them may count fewer as gone, never more.
        """
        electorate, weakly = self._electorate(room, readys), known // 2 + 1
        if electorate is None:
            return weakly
        some = readys[:least]
        strongly = electorate.fewest(ballot_of(some, self._excusable(room, some), electorate).without)
        may_be_weak = readys[0].weak or readys[0].announce.base.anchor == 0
        return min(strongly, weakly) if may_be_weak else strongly

    def _needed(self, room: Room, ordered: Sequence[Key], known: int) -> int:
        """How many members a group needs, as far as one number can say it."""
        readys = tuple(room.readys[key][0] for key in ordered)
        electorate = self._electorate(room, readys) if readys else None
        if electorate is None or all(ready.weak for ready in readys):
            return max(self._least(room, ordered), min(known // 2 + 1, MAX_MEMBERS))
        return max(self._least(room, ordered), electorate.needed())

    def _fitting(self, room: Room) -> tuple[Key, ...]:
        """The peers whose READYs fit together, in order of arrival.

        These are a quorum on the highest base that has one. Otherwise they are the peers on the base that
        most show (the higher one on a tie), and of them only those willing to join a weak group, if there are
        any.
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
        """Those willing to join a weak group, so that others do not hold them up; all if none is willing."""
        electors = {room.readys[key][0].electors for key in keys}
        willing = tuple(key for key in keys if room.readys[key][0].weak)
        return willing if willing and len(electors) == 1 else tuple(keys)

    def _apart(self, room: Room, ordered: tuple[Key, ...], known: int) -> tuple[Key, ...]:
        """These, without those whom others would leave out, as long as the rest may be closed as a group.

        Each time the peer goes that is at odds with most of the rest. Among equals they change (`_at_odds`):
        so one peer's word costs another its place no more often than itself.
        """
        kept = ordered
        while True:
            at_odds = self._at_odds(room, kept)
            rests = (tuple(other for other in kept if other != key) for key in at_odds)
            rest = next((rest for rest in rests if self._is_as_good(room, rest, kept, known)), None)
            if rest is None:
                return kept
            kept = rest

    def _at_odds(self, room: Room, keys: tuple[Key, ...]) -> list[Key]:
        """Those of these that are at odds with others of them, in the order in which one of them waits.

        With the most first. Among equals, who has waited for long enough comes last: for one group, if it
        would not leave out the other, too. Who waits already goes on; if the two were in one group since, it
        is who has waited less; then, whom most name.
        """
        wishing = [key for key in keys if key in room.apart]
        wishes = {(key, other) for key in wishing for other in self._wishes(room, key) if other in keys}
        pairs = Counter(key for pair in {frozenset(wish) for wish in wishes} for key in pair)
        named = Counter(other for _, other in wishes)
        mutual = {key for key, other in wishes if (other, key) in wishes}
        least = {
            key: min(room.aside[other] for way in wishes if key in way for other in way) for key in pairs
        }

        def place(key: Key) -> tuple[int, bool, bool, int, int, Key]:
            waited = room.aside[key]
            has_waited = waited - least[key] >= (ASIDE if key in mutual else 1)
            goes_on = key in mutual and key in room.waiting
            return -pairs[key], has_waited, not goes_on, waited, -named[key], key

        return sorted(pairs, key=place)

    def _wishes(self, room: Room, key: Key) -> tuple[Key, ...]:
        """Whom a READY's sender would leave out."""
        nonce, keys = room.apart.get(key, (b"", ()))
        return tuple(other for other in keys if other != key) if nonce == room.readys[key][0].nonce else ()

    def _is_as_good(self, room: Room, rest: tuple[Key, ...], whole: tuple[Key, ...], known: int) -> bool:
        """Whether a part of a group may be closed as well, and is strong if the whole is."""
        some, every = (tuple(room.readys[key][0] for key in keys) for keys in (rest, whole))
        if len(rest) < self._least(room, rest) or not self._is_allowed(room, some, known):
            return False
        return self._is_strong(room, some, self._excusable(room, some)) or not self._is_strong(
            room, every, self._excusable(room, every)
        )

    def _alike(self, room: Room, keys: list[Key]) -> list[tuple[Key, ...]]:
        """The keys, grouped by the electors that they count with."""
        of: dict[bytes, list[Key]] = {}
        for key in keys:
            of.setdefault(room.readys[key][0].electors, []).append(key)
        return [tuple(of[digest]) for digest in sorted(of)]

    def outranking(self, ready: Ready) -> tuple[Announce, ...]:
        """The announcements with a higher base than a READY's, which its sender should fetch."""
        room = self.room(ready.announce.swarm)
        base = ready.announce.base
        others = [each for each in room.announced.values() if each.base is not base]  # most are one object
        return tuple([announce for announce in others if announce.base.rank > base.rank])


def _is_void(then: Announce, now: Announce) -> bool:
    """Whether a READY's sender has since restarted, ended the round, changed base or votes, or follows."""
    before = (then.instance, then.round, then.base, then.open)
    return now.following or before != (now.instance, now.round, now.base, now.open)
