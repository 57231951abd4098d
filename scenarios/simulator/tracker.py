"""A tracker in a simulated network. It keeps its key and whom it named over a restart, and nothing else."""

from __future__ import annotations

from protocol.actions import Action, Named, Send
from protocol.machine import Machine
from protocol.swarm.meeting.tracker import Tracker
from protocol.wire.messages import Key
from scenarios.simulator.hosts import Host
from scenarios.simulator.wires import Wires


class SimulatedTracker(Host):
    """An Introducer and where it listens."""

    def __init__(self, index: int, network: Wires[Host]) -> None:
        super().__init__(index, network)
        self._named: dict[tuple[str, bytes], tuple[Key, ...]] = {}
        self._introducer = Tracker(self.key, network.plan.min_participants, None, self._named)

    @property
    def first_electors(self) -> tuple[Key, ...]:
        """Whom it named as electors of the first base; nobody yet: empty."""
        return next(iter(self._named.values()), ())

    @property
    def machine(self) -> Machine:
        """The machine of this life."""
        return self._introducer

    def boot(self) -> None:
        """A tracker that knows nobody."""
        self._introducer = Tracker(self.key, self.network.plan.min_participants, None, self._named)

    def perform(self, action: Action) -> None:
        """It sends, and keeps whom it named; notices are for people."""
        if isinstance(action, Named):
            self._named[action.task, action.parameters] = action.electors
        if isinstance(action, Send) and isinstance(action.to, str):
            self.send_all(action.to, action.messages)
