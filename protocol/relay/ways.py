"""Which way leads to each member: by the first relay where this node and the member have both a carrier.

A relay says AWAY when a member has no carrier there, and HERE when it has one again. A member of which a
relay said nothing is taken to be there. A member is away while no relay leads to it; its streams outlive that
for some time, which is short where the member's process has ended.

A relay may say nothing, and pass on nothing. So a relay is doubted, for one member, if the member does not
answer by it while another relay leads there, too. The way is the relay that was doubted longest ago, first
those that never were. As questions are answered by the relay that brings them, each end finds one that
carries both ways, whatever the other end does. A relay is no longer doubted once this node or the member has
connected to it anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from protocol.relay.admission import CarrierKind
from protocol.relay.frames import Absence
from protocol.wire.ids import Key

SILENT_S = 25.0
"""So long streams outlive a carrier of their own, or of a member that fell silent."""
CLOSED_S = 3.0
"""The same where the member closed its carrier, as its system does when its process ends."""
STALLED_S = 5.0
"""A relay is doubted if a member that should answer by it has not for this long, and again after as long."""
_NEVER = -math.inf


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
        self._doubted: dict[tuple[CarrierId, Key], float] = {}
        """When relays were doubted, for a member."""
        self._met: set[Key] = set()
        """The members from which something came since the way to them opened."""
        self._missed: dict[Key, Away] = {}
        """How members that had been met were lost, last."""
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
        self._doubted = {known: since for known, since in self._doubted.items() if known[1] != member}
        self._met.discard(member)
        self._missed.pop(member, None)

    def way(self, line: Line) -> CarrierId | None:
        """The carrier that leads to a member; None while it is away."""
        return self._ways.get(line)

    def guess(self, kind: CarrierKind) -> CarrierId | None:
        """The carrier by which to ask for a member that is away: no relay may have said that it is back."""
        return next(iter(self._connected(kind)), None)

    def away(self, line: Line) -> Away | None:
        """Since when a member is away; None while a way leads to it."""
        return self._away.get(line)

    def seen(self, member: Key) -> CarrierId | Away | None:
        """The carrier by which a member is known to be there, or since when it is missed; None: never seen.

        A member is only taken to be there, and not seen, until something comes from it.
        """
        if member in self._met:
            return self._ways[member, CarrierKind.CONTROL]
        return self._missed.get(member)

    def connect(self, carrier: CarrierId, now: float) -> list[Line]:
        """A carrier is up, which knows nothing of the past. Returns the lines whose way has changed."""
        self._up.add(carrier)
        self._absent = {known: how for known, how in self._absent.items() if known[0] != carrier}
        self._doubted = {known: since for known, since in self._doubted.items() if known[0] != carrier}
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
        """A relay says HERE. Returns the lines whose way has changed."""
        self._doubted.pop((carrier, member), None)
        self._absent.pop((carrier, member), None)
        changed = self._review([(member, carrier.kind)], now)
        self._meet(carrier, member)
        return changed

    def hear(self, carrier: CarrierId, member: Key, now: float) -> list[Line]:
        """A relay brings a frame of the member. Returns the lines whose way has changed."""
        was_absent = self._absent.pop((carrier, member), None) is not None
        changed = self._review([(member, carrier.kind)], now) if was_absent else []
        self._meet(carrier, member)
        return changed

    def doubt(self, line: Line, now: float) -> list[Line]:
        """A member does not answer by the way to it. Returns the line if there is another way to try now."""
        way, member = self._ways.get(line), line[0]
        others = [carrier for carrier in self._candidates(line) if carrier != way]
        newest = max((self._doubted.get((each, member), _NEVER) for each in others), default=math.inf)
        if way is None or now - newest < STALLED_S:
            return []
        self._doubted[way, member] = now
        return self._review([line], now)

    def _meet(self, carrier: CarrierId, member: Key) -> None:
        if carrier.kind is CarrierKind.CONTROL:
            self._met.add(member)

    def _lines(self, kind: CarrierKind) -> list[Line]:
        return [line for line in (*self._ways, *self._away) if line[1] is kind]

    def _connected(self, kind: CarrierKind) -> list[CarrierId]:
        """The carriers of a kind that are up, in the roster's order."""
        return [carrier for relay in range(self._relays) if (carrier := CarrierId(relay, kind)) in self._up]

    def _review(self, lines: Iterable[Line], now: float) -> list[Line]:
        changed: list[Line] = []
        for line in lines:
            before = self._ways.get(line)
            way = self._best(line)
            if way is not None:
                self._ways[line] = way
                self._away.pop(line, None)
            else:
                self._ways.pop(line, None)
                self._lose(line, now)
            if way != before:
                changed.append(line)
        return changed

    def _candidates(self, line: Line) -> list[CarrierId]:
        """The carriers that lead to a member, as far as is known, in the roster's order."""
        member, kind = line
        return [each for each in self._connected(kind) if (each, member) not in self._absent]

    def _best(self, line: Line) -> CarrierId | None:
        """Of the carriers that lead to a member the one that was doubted longest ago; the first of equals."""
        doubted, member = self._doubted, line[0]
        return min(self._candidates(line), key=lambda each: doubted.get((each, member), _NEVER), default=None)

    def _lose(self, line: Line, now: float) -> None:
        """A member is away."""
        member, kind = line
        gone = self._away[line] = self._gone(
            line, [self._absent[carrier, member] for carrier in self._connected(kind)], now
        )
        if kind is CarrierKind.CONTROL:
            if member in self._met:
                self._missed[member] = gone
            elif member in self._missed:
                self._missed[member] = replace(self._missed[member], why=gone.why)
            self._met.discard(member)

    def _gone(self, line: Line, how: list[Absence], now: float) -> Away:
        """A member is away: streams last as long as the kindest word of the relays allows."""
        before = self._away.get(line)
        why = min(how, default=None)
        until = now + (CLOSED_S if why is Absence.CLOSED else SILENT_S)
        if before is None:
            return Away(now, why, until)
        return Away(before.since, why, min(before.until, until))
