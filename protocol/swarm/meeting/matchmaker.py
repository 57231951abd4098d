"""The coordinator's side: collects signed READYs, and closes groups. It sees no share and decides no sum.

A room (`room`) is one swarm: a task and its parameters. The coordinator forgets a peer that it has not heard
for ANNOUNCE_LIFETIME_S, by its own clock. A peer counts as heard only on a link on which it proved its key;
the caller checks this.
"""

from __future__ import annotations

from collections.abc import Mapping

from protocol.actions import Action, Send
from protocol.crypto.node_key import NodeKey
from protocol.crypto.sealing import check_public
from protocol.errors import RemoteProtocolError
from protocol.quorum.electorate import Electorate
from protocol.swarm.meeting.room import Order, Room, Waiting
from protocol.swarm.node_state import ANNOUNCE_LIFETIME_S
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Accepted, Announce, Key, LeftOut, Ready

MAX_ROOMS = 256
MAX_ANNOUNCED = 1024
MAX_ELECTORATES = 16
_NONE = (-1, -1)


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
            named = self._named.get(swarm, ())
            self._rooms[swarm] = Room(self._key, self._min_participants, self._names, named)
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
        return tuple(self._rooms[swarm].picture(swarm) for swarm in sorted(self._rooms))

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
            room.remove(announce.key)
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
            room.remove(key)
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
        for swarm, room in self._rooms.items():
            count = len(room.offering) if known is None else known
            at = room.closing_time(count)
            if at is not None and at <= now:
                actions += room.close(count, now)
                self._named[swarm] = room.named
            elif at is not None:
                due.append(at)
            due += [heard_at + ANNOUNCE_LIFETIME_S for heard_at in room.heard_at.values()]
        self.deadline = min(due, default=None)
        return actions

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
