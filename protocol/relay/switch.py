"""The switch of a relay: passes frames from carrier to carrier, and remembers no stream.

A member has two carriers, one of each kind, and a frame leaves on the kind on which it came. Frames wait in a
queue for each pair of sender and addressee. The switch never waits for a slow reader: beyond the bounds it
drops the frame and says so to the sender, which goes back and sends it again. If all memory is taken, it
drops the longest queue of the carrier that holds most, so that stuck readers cost the others nothing. A
sender beyond its rate is read more slowly.

A member reaches the members of its own swarm; other frames are answered by a reset. A sender hears when an
addressee has no carrier of that kind, and when it has one again.

Time is an argument, in seconds. Methods return the carriers for which something waits now.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from protocol.crypto.node_key import KEY_BYTES
from protocol.errors import RemoteProtocolError
from protocol.relay.admission import CarrierKind, Welcome
from protocol.relay.buckets import Buckets, Rate
from protocol.relay.frames import FROM_RELAY, HEAD_BYTES, MAX_FRAME_BYTES, Absence, Frame, FrameKind
from protocol.relay.waiting import Parts, Waiting, cost_of
from protocol.wire.ids import Key
from protocol.wire.limits import MAX_MEMBERS

MIB = 1024 * 1024
DAY_S = 86400.0
MAX_KNOWN_KEYS = 2 * MAX_MEMBERS
"""Keys of a swarm, as all its members show them."""
KNOWN_MEMBERS, KNOWN_SWARMS = 8192, 4096
"""Of so many, the latest, the relay remembers what they have used of their rate and of their day."""
_RESET = int(FrameKind.RESET)


@dataclass(frozen=True)
class SwitchLimits:
    """The bounds of a switch. A member's rate and a swarm's day are its operator's choice."""

    pair_bytes: int = MIB + 128 * 1024
    """What waits from one member for one carrier: a stream's window, and its frames' heads."""
    carrier_bytes: int = 16 * MIB
    all_bytes: int = 128 * MIB
    """With it a relay's process stays below 300 MB."""
    bytes_per_s: int = 25_000_000
    burst_bytes: int = 64_000_000
    bytes_per_day: int = 200 * 10**9

    @property
    def welcome(self) -> Welcome:
        """What a member is told of them."""
        return Welcome(self.bytes_per_s, self.burst_bytes, self.bytes_per_day)


LIMITS = SwitchLimits()


class SwarmId(NamedTuple):
    """A swarm at a relay: nobody but its inviter can name members of it."""

    inviter: Key
    swarm: bytes


class Passed(NamedTuple):
    """What a frame led to: carriers for which something waits, and how long its sender is not to be read."""

    woken: tuple[Carrier, ...] = ()
    rest_s: float = 0.0


_NOTHING = Passed()


@dataclass(eq=False, slots=True)
class Carrier:
    """One member's connection of one kind. Only the switch changes it; `carried_bytes` came on it."""

    key: Key
    kind: CarrierKind
    process: int
    swarm: SwarmId
    waiting: Waiting = field(default_factory=Waiting)
    full: set[Key] = field(default_factory=set)
    """Senders that were told that too much waits here."""
    away: set[Key] = field(default_factory=set)
    """Addressees of which this carrier was told that they are away."""
    limited_on_s: float | None = None
    """The beginning of the day whose end of carriage it was told."""
    is_over: bool = False
    carried_bytes: int = 0


@dataclass(eq=False)
class _Swarm:
    keys: frozenset[Key] = frozenset()
    carriers: dict[tuple[Key, CarrierKind], Carrier] = field(default_factory=dict)
    senders: dict[tuple[Key, CarrierKind], set[Key]] = field(default_factory=dict)
    """Who has sent to a member: who hears that it is away or here."""
    absences: dict[tuple[Key, CarrierKind], Absence] = field(default_factory=dict)


@dataclass(eq=False)
class _Day:
    begun_s: float
    carried_bytes: int = 0


class Switch:
    """All carriers of a relay."""

    def __init__(self, limits: SwitchLimits = LIMITS) -> None:
        self.limits = limits
        self._swarms: dict[SwarmId, _Swarm] = {}
        self._days: OrderedDict[SwarmId, _Day] = OrderedDict()
        self._rates = Buckets(Rate(limits.burst_bytes, limits.bytes_per_s), KNOWN_MEMBERS)
        self._carriers: dict[Carrier, None] = {}
        self.held_bytes = 0
        """What all waiting frames count for."""
        self.carried_bytes = 0
        self.carried_frames = 0
        self.dropped: Counter[str] = Counter()
        """Dropped frames, by reason."""

    @property
    def carriers(self) -> Iterable[Carrier]:
        """All open carriers, in the order in which they came."""
        return self._carriers.keys()

    @property
    def swarms(self) -> int:
        """How many swarms have a carrier here."""
        return len(self._swarms)

    # -- carriers ----------------------------------------------------------------------------------

    def enter(
        self, key: Key, kind: CarrierKind, process: int, swarm_id: SwarmId, keys: frozenset[Key]
    ) -> tuple[Carrier, Carrier | None, tuple[Carrier, ...]]:
        """Takes a member's new carrier. `keys`: of its swarm, as it has shown.

        Returns the carrier, the older one that it replaces, which is to be closed, and those for which
        something waits. Raises RemoteProtocolError for a key beyond those that a swarm may have.
        """
        swarm = self._swarms.get(swarm_id, _Swarm())
        known = swarm.keys | keys
        if len(known) <= MAX_KNOWN_KEYS:
            swarm.keys = known
        elif key not in swarm.keys:
            raise RemoteProtocolError(f"this swarm has shown {len(swarm.keys)} keys, and may show no more")
        self._swarms[swarm_id] = swarm
        place = key, kind
        older = swarm.carriers.get(place)
        if older is not None:
            self._end(older)
        carrier = swarm.carriers[place] = Carrier(key, kind, process, swarm_id)
        self._carriers[carrier] = None
        swarm.absences.pop(place, None)
        here, woken = Frame(key, FrameKind.HERE, stream=process), []
        for sender in swarm.senders.get(place, ()):
            other = swarm.carriers.get((sender, kind))
            if other is not None and other is not carrier:
                other.away.discard(key)
                other.waiting.note((FrameKind.HERE, key), here)
                woken.append(other)
        return carrier, older, tuple(woken)

    def leave(self, carrier: Carrier, absence: Absence) -> tuple[Carrier, ...]:
        """Takes note that a carrier is closed, and why; nothing if a newer one has replaced it."""
        if carrier.is_over:
            return ()
        swarm, place = self._swarms[carrier.swarm], (carrier.key, carrier.kind)
        self._end(carrier)
        del swarm.carriers[place]
        if not swarm.carriers:
            del self._swarms[carrier.swarm]
            return ()
        swarm.absences[place] = absence
        others = (swarm.carriers.get((sender, carrier.kind)) for sender in swarm.senders.get(place, ()))
        woken = tuple(other for other in others if other is not None)
        for other in woken:
            self._say_away(swarm, other, carrier.key)
        return woken

    def _end(self, carrier: Carrier) -> None:
        carrier.is_over = True
        del self._carriers[carrier]
        self.held_bytes -= carrier.waiting.held_bytes
        carrier.waiting = Waiting()

    # -- frames ------------------------------------------------------------------------------------

    def pass_on(self, carrier: Carrier, message: memoryview, now_s: float) -> Passed:
        """Takes a frame, whose bytes must not change from here on.

        Raises RemoteProtocolError if it is none: the carrier is to be closed.
        """
        size = len(message)
        if not HEAD_BYTES <= size <= MAX_FRAME_BYTES:
            raise RemoteProtocolError(f"{size} bytes that are no frame of a relayed stream")
        if carrier.is_over:
            return _NOTHING
        if message[KEY_BYTES] in FROM_RELAY:
            return self._drop("a frame that only a relay may send")
        swarm, to = self._swarms[carrier.swarm], bytes(message[:KEY_BYTES])
        rest_s = self._rates.of(carrier.key, now_s).owe(size, now_s)
        if to not in swarm.keys:
            return self._reset(carrier, to, message, rest_s)
        place = to, carrier.kind
        swarm.senders.setdefault(place, set()).add(carrier.key)
        target = swarm.carriers.get(place)
        if target is None:
            if to not in carrier.away:
                self._say_away(swarm, carrier, to)
            return self._drop("to a member that is away", (carrier,), rest_s)
        if not self._count(carrier, size, now_s):
            return self._drop("beyond what a swarm may send in a day", (carrier,), rest_s)
        parts = carrier.key, message[KEY_BYTES:]
        cost = cost_of(parts)
        woken = self._make_room(carrier, target, cost)
        if woken is None:
            self._say_full(carrier, target)
            return self._drop("to a member that reads too slowly", (carrier,), rest_s)
        target.waiting.put(carrier.key, parts, cost)
        self.held_bytes += cost
        self.carried_bytes += size
        self.carried_frames += 1
        return Passed((target, *woken), rest_s)

    def take(self, carrier: Carrier) -> Parts | None:
        """Removes and returns the next frame for a carrier, in parts; None if nothing waits."""
        note = carrier.waiting.take_note()
        if note is not None:
            return note
        found = carrier.waiting.take()
        if found is None:
            return None
        sender, parts, cost = found
        self.held_bytes -= cost
        if carrier.full and not carrier.waiting.held_from(sender):
            carrier.full &= carrier.waiting.senders  # some of them have had nothing here that could drain
        return parts

    def _drop(self, why: str, woken: tuple[Carrier, ...] = (), rest_s: float = 0.0) -> Passed:
        self.dropped[why] += 1
        return Passed(woken, rest_s)

    def _reset(self, carrier: Carrier, to: Key, message: memoryview, rest_s: float) -> Passed:
        """Ends a stream to a stranger."""
        if message[KEY_BYTES] != _RESET:
            stream = int.from_bytes(message[KEY_BYTES + 1 : KEY_BYTES + 9], "big")
            carrier.waiting.note((_RESET, to, stream), Frame(to, FrameKind.RESET, stream))
        return self._drop("to a key outside the swarm", (carrier,), rest_s)

    def _count(self, carrier: Carrier, size: int, now_s: float) -> bool:
        """Counts the bytes of a frame for its swarm's day; returns whether the relay carries them."""
        day = self._days.get(carrier.swarm)
        if day is None or now_s - day.begun_s >= DAY_S:
            day = self._days[carrier.swarm] = _Day(now_s)
            if len(self._days) > KNOWN_SWARMS:
                self._days.popitem(last=False)
        if day.carried_bytes + size > self.limits.bytes_per_day:
            if carrier.limited_on_s != day.begun_s:
                carrier.limited_on_s = day.begun_s
                carrier.waiting.note(FrameKind.LIMIT, self._limit(carrier.key))
            return False
        day.carried_bytes += size
        carrier.carried_bytes += size
        return True

    def _limit(self, key: Key) -> Frame:
        most = f"{self.limits.bytes_per_day / 1e9:g} GB"
        text = f"the relay carries no more for this swarm today ({most})"
        return Frame(key, FrameKind.LIMIT, data=memoryview(text.encode()))

    def _make_room(self, carrier: Carrier, target: Carrier, cost: int) -> tuple[Carrier, ...] | None:
        """Whether a frame may wait: the carriers that heard of it, if others had to make room; else None."""
        waiting, limits = target.waiting, self.limits
        if waiting.held_from(carrier.key) + cost > limits.pair_bytes:
            return None
        if waiting.held_bytes + cost > limits.carrier_bytes:
            return None
        if self.held_bytes + cost <= limits.all_bytes:
            return ()
        if waiting.held_bytes + cost > limits.all_bytes // len(self._carriers):
            return None  # it has its share; below that, another one has more
        woken = []
        while self.held_bytes + cost > limits.all_bytes:
            fattest = max(self._carriers, key=lambda each: each.waiting.held_bytes)
            sender, held_bytes = fattest.waiting.drop_longest()
            self.held_bytes -= held_bytes
            self.dropped["to a member that reads too slowly, for others"] += 1
            loser = self._swarms[fattest.swarm].carriers.get((sender, fattest.kind))
            if loser is not None:
                self._say_full(loser, fattest)
                woken.append(loser)
        return tuple(woken)

    @staticmethod
    def _say_full(carrier: Carrier, target: Carrier) -> None:
        if carrier.key not in target.full:
            target.full.add(carrier.key)
            carrier.waiting.note((FrameKind.FULL, target.key), Frame(target.key, FrameKind.FULL))

    @staticmethod
    def _say_away(swarm: _Swarm, carrier: Carrier, to: Key) -> None:
        carrier.away.add(to)
        absence = swarm.absences.get((to, carrier.kind), Absence.SILENT)
        frame = Frame(to, FrameKind.AWAY, offset=absence)
        carrier.waiting.note((FrameKind.HERE, to), frame)
