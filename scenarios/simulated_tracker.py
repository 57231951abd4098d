"""A tracker in a simulated network. It keeps its key and nothing else over a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.actions import Action, Send
from protocol.introducer import Introducer
from protocol.machine import Machine
from scenarios.hosts import Host

if TYPE_CHECKING:
    from scenarios.network import Network


class SimulatedTracker(Host):
    """An Introducer and where it listens."""

    def __init__(self, index: int, network: Network) -> None:
        super().__init__(index, network)
        self._introducer = Introducer(self.key, network.plan.min_participants, None)

    @property
    def machine(self) -> Machine:
        """The machine of this life."""
        return self._introducer

    def boot(self) -> None:
        """A tracker that knows nobody."""
        self._introducer = Introducer(self.key, self.network.plan.min_participants, None)

    def perform(self, action: Action) -> None:
        """It sends; notices are for people."""
        if isinstance(action, Send) and isinstance(action.to, str):
            self.send_all(action.to, action.messages)
