"""Which way leads to each member: by the first relay where this node and the member have both a carrier.

A relay says AWAY when a member has no carrier there, and HERE when it has one again. A member of which a
relay said nothing is taken to be there. A member is away while no relay leads to it; its streams outlive that
for some time, which is short where the member's process has ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from protocol.relay.admission import CarrierKind
from protocol.relay.frames import Absence
from protocol.wire.ids import Key

SILENT_S = 25.0
"""So long streams outlive a carrier of their own, or of a member that fell silent."""
CLOSED_S = 3.0
"""The same where the member closed its carrier, as its system does when its process ends."""


class CarrierId(NamedTuple):
    """A connection of this node to a relay. `relay`: its index in the roster's list."""

    relay: int
    kind: CarrierKind


Line = tuple[Key, CarrierKind]
"""What leads to a member, over whichever relay: its streams of one kind."""


@dataclass(frozen=True, slots=True)
class Away:
    """No relay leads to a member. Times are those of the caller's clock, in seconds.

    `why`: how it left the relay; None if this node has no carrier itself. Streams are over at `until`.
    """

    since: float
    why: Absence | None
    until: float


class Ways:
    """The ways of one node."""

    def __init__(self, members: Iterable[Key], relays: int, now: float) -> None:
        self._relays = relays
        self._up: set[CarrierId] = set()
        self._absent: dict[tuple[CarrierId, Key], Absence] = {}
        self._ways: dict[Line, CarrierId] = {}
        self._away: dict[Line, Away] = {
            (member, kind): Away(now, None, now + SILENT_S) for member in members for kind in CarrierKind
        }

    def add(self, member: Key, now: float) -> None:
        """There is a further member."""
        lines = [(member, kind) for kind in CarrierKind]
        self._away |= {line: Away(now, None, now + SILENT_S) for line in lines}
        self._review(lines, now)

    def drop(self, member: Key) -> None:
        """Nothing leads to this member any more."""
        for kind in CarrierKind:
            self._ways.pop((member, kind), None)
            self._away.pop((member, kind), None)
        self._absent = {known: how for known, how in self._absent.items() if known[1] != member}

    def way(self, line: Line) -> CarrierId | None:
        """The carrier that leads to a member; None while it is away."""
        return self._ways.get(line)

    def guess(self, kind: CarrierKind) -> CarrierId | None:
        """The carrier by which to ask for a member that is away: no relay may have said that it is back."""
        return next(iter(self._connected(kind)), None)

    def away(self, line: Line) -> Away | None:
        """Since when a member is away; None while a way leads to it."""
        return self._away.get(line)

    def connect(self, carrier: CarrierId, now: float) -> list[Line]:
        """A carrier is up, which knows nothing of the past. Returns the lines whose way has changed."""
        self._up.add(carrier)
        for known in [known for known in self._absent if known[0] == carrier]:
            del self._absent[known]
        return self._review(self._lines(carrier.kind), now)

    def disconnect(self, carrier: CarrierId, now: float) -> list[Line]:
        """A carrier broke. Returns the lines whose way has changed."""
        self._up.discard(carrier)
        return self._review(self._lines(carrier.kind), now)

    def leave(self, carrier: CarrierId, member: Key, how: Absence, now: float) -> list[Line]:
        """A relay says AWAY. Returns the lines whose way has changed."""
        self._absent[carrier, member] = how
        return self._review([(member, carrier.kind)], now)

    def arrive(self, carrier: CarrierId, member: Key, now: float) -> list[Line]:
        """A relay says HERE, or brings a frame of the member. Returns the lines whose way has changed."""
        if self._absent.pop((carrier, member), None) is None:
            return []
        return self._review([(member, carrier.kind)], now)

    def _lines(self, kind: CarrierKind) -> list[Line]:
        return [line for line in (*self._ways, *self._away) if line[1] is kind]

    def _connected(self, kind: CarrierKind) -> list[CarrierId]:
        """The carriers of a kind that are up, in the roster's order."""
        return [carrier for relay in range(self._relays) if (carrier := CarrierId(relay, kind)) in self._up]

    def _review(self, lines: Iterable[Line], now: float) -> list[Line]:
        changed: list[Line] = []
        for line in lines:
            member, kind = line
            before, up = self._ways.get(line), self._connected(kind)
            way = next((carrier for carrier in up if (carrier, member) not in self._absent), None)
            if way is not None:
                self._ways[line] = way
                self._away.pop(line, None)
            else:
                self._ways.pop(line, None)
                self._away[line] = self._gone(line, [self._absent[carrier, member] for carrier in up], now)
            if way != before:
                changed.append(line)
        return changed

    def _gone(self, line: Line, how: list[Absence], now: float) -> Away:
        """A member is away: streams last as long as the kindest word of the relays allows."""
        before = self._away.get(line)
        why = min(how, default=None)
        until = now + (CLOSED_S if why is Absence.CLOSED else SILENT_S)
        if before is None:
            return Away(now, why, until)
        return Away(before.since, why, min(before.until, until))
