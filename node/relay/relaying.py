"""A relay as one value: its switch, its rooms, their routes, and what its operator sees of them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from node.net.incoming.routes import Routes, answers
from node.net.traffic import Counts
from node.relay.carriers import Carriers
from node.relay.meeting_rooms import MeetingRooms
from node.system.system import SYSTEM, System
from protocol.crypto.node_key import NodeKey
from protocol.relay.admission import Licences
from protocol.relay.rooms import Lobby
from protocol.relay.switch import LIMITS, Carrier, Switch, SwitchLimits

CARRIES = "swarms whose inviter knows its word"
SEES = "who talks to whom, when and how much, and nothing else"
KEY_DIGITS = 16
MOST_SHOWN = 256
"""Members on the page."""


@dataclass(frozen=True, slots=True)
class CarriedMember:
    """A member that is connected. `swarm`: the first digits of its id; `carried_bytes`: what came from it."""

    key: str
    swarm: str
    carriers: int
    carried_bytes: int


@dataclass(frozen=True, slots=True)
class RelayView:
    """Who is connected to a relay, and how much it carries: it knows no more."""

    members: tuple[CarriedMember, ...]
    connected: int
    swarms: int
    rooms: int
    carried_bytes: int
    carried_frames: int
    waiting_bytes: int
    dropped: Mapping[str, int]


class Relaying:
    """A relay on a listener that others serve."""

    def __init__(
        self, key: NodeKey, word: str, counts: Counts, limits: SwitchLimits = LIMITS, system: System = SYSTEM
    ) -> None:
        """`counts`: where what is refused is counted. Call it in the event loop that serves the routes."""
        licences = Licences(key, word)
        self._switch = Switch(limits)
        self._lobby = Lobby(licences, word, asyncio.get_running_loop().time())
        self._carriers = Carriers(key, licences, self._switch, counts, system)
        self._rooms = MeetingRooms(key, self._lobby, counts, system)

    @property
    def routes(self) -> Routes:
        """All routes of a relay."""
        return answers(self._carriers.routes, self._rooms.routes)

    async def close(self) -> None:
        """Says goodbye to everybody."""
        await asyncio.gather(self._carriers.close(), self._rooms.close())

    def view(self) -> RelayView:
        """Returns what the operator sees."""
        switch = self._switch
        members: dict[tuple[bytes, bytes], list[Carrier]] = defaultdict(list)
        for carrier in switch.carriers:
            members[carrier.swarm.swarm, carrier.key].append(carrier)
        shown = [
            CarriedMember(
                key=key.hex()[:KEY_DIGITS],
                swarm=swarm.hex()[:KEY_DIGITS],
                carriers=len(carriers),
                carried_bytes=sum(carrier.carried_bytes for carrier in carriers),
            )
            for (swarm, key), carriers in sorted(members.items())[:MOST_SHOWN]
        ]
        return RelayView(
            members=tuple(shown),
            connected=len(members),
            swarms=switch.swarms,
            rooms=self._lobby.rooms,
            carried_bytes=switch.carried_bytes,
            carried_frames=switch.carried_frames,
            waiting_bytes=switch.held_bytes,
            dropped=dict(switch.dropped),
        )
