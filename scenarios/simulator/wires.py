"""The simulated network as its hosts see it: what they are told of the plan, how they reach each other."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from protocol.wire.messages import Key, Message
from scenarios.simulator.plans import Plan
from scenarios.simulator.rules import Rules

Host_contra = TypeVar("Host_contra", contravariant=True)


class Place(Protocol):
    """Where a host listens."""

    @property
    def endpoint(self) -> str:
        """HOST:PORT."""


class Wires(Protocol[Host_contra]):
    """A network of hosts. Times are simulated Unix seconds."""

    now: float
    random: random.Random

    @property
    def plan(self) -> Plan:
        """What happens in this run."""

    @property
    def rules(self) -> Rules:
        """What must be true of it."""

    @property
    def elapsed_s(self) -> float:
        """Since the run began."""

    @property
    def peers(self) -> Sequence[Place]:
        """All of them, up or not."""

    @property
    def tracker(self) -> Place | None:
        """None where the peers coordinate themselves."""

    def index_of(self, key: Key) -> int | None:
        """Which peer has this key."""

    def send(self, sender: Host_contra, endpoint: str, message: Message) -> None:
        """A message leaves."""

    def after(self, seconds: float, host: Host_contra, call: Callable[[], None]) -> None:
        """Call that then, if this host still has the same life."""

    def end(self, host: Host_contra) -> None:
        """This host is done."""
