"""The base of peers and the tracker in a simulated network: an endpoint, a life, a timer."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import partial

from protocol.actions import Action
from protocol.crypto.node_key import NodeKey
from protocol.machine import Machine
from protocol.wire.bulk import Bulk
from protocol.wire.messages import Message
from scenarios.simulator.wires import Wires

FIRST_PORT = 7000


class Host(ABC):
    """One process. A crash loses its memory; a subclass defines what survives on disk.

    A life is the time between a start and the next crash or end.
    """

    def __init__(self, index: int, network: Wires[Host]) -> None:
        self.index = index
        self.key = NodeKey(network.random.randbytes(32))
        self.network = network
        self.endpoint = f"127.0.0.1:{FIRST_PORT + index}"
        self.alive = False
        self.done = False
        self.gone = False
        """Whether the host is dead or hung for ever."""
        self.life = 0
        self.started_at = -math.inf
        self.sends = 0
        self.hung_until = -math.inf
        self._armed: float | None = None

    @property
    @abstractmethod
    def machine(self) -> Machine:
        """The machine of this life."""

    @abstractmethod
    def boot(self) -> None:
        """Make the machine from what is on disk, and start it."""

    @abstractmethod
    def perform(self, action: Action) -> None:
        """Carry out an action of the machine."""

    def start(self) -> None:
        """Begin a life."""
        self.alive, self.life, self._armed, self.hung_until = True, self.life + 1, None, -math.inf
        self.started_at = self.network.now
        self.boot()

    def die(self) -> None:
        """End this life of the process."""
        self.alive, self.life = False, self.life + 1

    def carry_out(self, actions: Iterable[Action]) -> None:
        """Perform the actions in order, and stop if this life ends."""
        life = self.life
        for action in actions:
            if self.life != life:
                return
            self.perform(action)
        self.arm()

    def send_all(self, endpoint: str, messages: tuple[Message, ...] | Bulk[Message]) -> None:
        """Send the messages in order, and stop if a send ends this life."""
        life = self.life
        for message in messages:
            if self.life != life:
                return
            self.network.send(self, endpoint, message)

    def arm(self) -> None:
        """Set the timer to the machine's deadline, unless it goes off before."""
        deadline = self.machine.deadline
        if deadline is None or not self.alive or (self._armed is not None and self._armed <= deadline):
            return
        self._armed = deadline
        self.network.after(max(0.0, deadline - self.network.now), self, partial(self._goes_off, deadline))

    def _goes_off(self, set_to: float) -> None:
        """Tick, unless the timer was set anew or the deadline has moved."""
        if set_to != self._armed:
            return
        self._armed = None
        deadline = self.machine.deadline
        if deadline is not None and deadline <= self.network.now:
            self.carry_out(self.machine.tick(self.network.now))
        else:
            self.arm()
