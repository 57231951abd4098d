"""The simulated network as its hosts see it: the plan, and the means to reach each other."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from protocol.wire.messages import Key, Message
from scenarios.simulator.plans import Plan
from scenarios.simulator.rules import Rules

Host_contra = TypeVar("Host_contra", contravariant=True)


class Place(Protocol):
    """A host's endpoint."""

    @property
    def endpoint(self) -> str:
        """HOST:PORT."""


class Wires(Protocol[Host_contra]):
    """A network of hosts. Times are simulated Unix seconds."""

    now: float
    random: random.Random

    @property
    def plan(self) -> Plan:
        """The plan of this run."""

    @property
    def rules(self) -> Rules:
        """The rules that the run must obey."""

    @property
    def elapsed_s(self) -> float:
        """Virtual seconds since the start of the run."""

    @property
    def peers(self) -> Sequence[Place]:
        """All peers, running or not."""

    @property
    def tracker(self) -> Place | None:
        """The tracker; None if the peers coordinate themselves."""

    def index_of(self, key: Key) -> int | None:
        """The index of the peer with this key; None if there is none."""

    def send(self, sender: Host_contra, endpoint: str, message: Message) -> None:
        """Send a message to an endpoint."""

    def after(self, seconds: float, host: Host_contra, call: Callable[[], None]) -> None:
        """Call `call` after `seconds` if the host is still in the same life."""

    def end(self, host: Host_contra) -> None:
        """End the process of this host."""
