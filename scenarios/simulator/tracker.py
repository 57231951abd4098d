"""A tracker in a simulated network. Only its key and the electors that it named survive a restart."""

from __future__ import annotations

from protocol.actions import Action, Named, Send
from protocol.machine import Machine
from protocol.swarm.meeting.tracker import Tracker
from protocol.wire.messages import Key
from scenarios.simulator.hosts import Host
from scenarios.simulator.plans import MIN_PARTICIPANTS
from scenarios.simulator.wires import Wires


class SimulatedTracker(Host):
    """A host that runs the tracker's machine."""

    def __init__(self, index: int, network: Wires[Host]) -> None:
        super().__init__(index, network)
        self._named: dict[tuple[str, bytes], tuple[Key, ...]] = {}
        self._introducer = Tracker(self.key, MIN_PARTICIPANTS, None, self._named)

    @property
    def first_electors(self) -> tuple[Key, ...]:
        """The electors of the first base that it named; empty before it named any."""
        return next(iter(self._named.values()), ())

    @property
    def machine(self) -> Machine:
        """The machine of this life."""
        return self._introducer

    def boot(self) -> None:
        """Make a tracker that knows no peer."""
        self._introducer = Tracker(self.key, MIN_PARTICIPANTS, None, self._named)

    def perform(self, action: Action) -> None:
        """Send messages and store named electors; ignore notices."""
        if isinstance(action, Named):
            self._named[action.task, action.parameters] = action.electors
        if isinstance(action, Send) and isinstance(action.to, str):
            self.send_all(action.to, action.messages)
