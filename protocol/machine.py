"""What a shell drives, be it over asyncio or under a simulated clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from protocol.actions import Action
from protocol.messages import Key, Message, Sum
from protocol.seat import Seat
from protocol.vectors import Floats


class Machine(Protocol):
    """A Session, an Introducer, a role in a federation. Times are Unix seconds, actions go in their order."""

    @property
    def deadline(self) -> float | None:
        """When tick is due."""

    def receive(self, message: Message, by: Key | None, now: float) -> list[Action]:
        """A message came. `by`: whose key was proved on the link that brought it; None: nobody's."""

    def unreachable(self, endpoint: str, why: str, now: float) -> list[Action]:
        """An endpoint does not answer."""

    def reconnected(self, endpoint: str, now: float) -> list[Action]:
        """A link broke and was opened again."""

    def tick(self, now: float) -> list[Action]:
        """The deadline is over."""


class SessionMachine(Protocol):
    """One member of one session, additive or masked: what a Session drives. Sends go to node keys."""

    seat: Seat
    shares_since: float
    sums_since: float
    deadline: float | None

    @property
    def headers(self) -> Mapping[Key, Sum]:
        """The signed sums seen so far, where there are any."""

    @property
    def stage(self) -> str:
        """The half of the session, as figures name it: shares until the offer is spent, then sums."""

    def start(self, vector: Floats, rand: bytes, now: float) -> list[Action]:
        """Begin with a (d,) float32 offer and 32 secret bytes."""

    def takes(self, message: Message) -> bool:
        """Whether this is a kind of message that goes to this machine, of its session."""

    def awaits_only(self, message: Message) -> bool:
        """Whether a message of this kind is the last one before it goes through all of the vector."""

    def receive(self, message: Message, now: float) -> list[Action]:
        """Take in a message that it takes; RemoteProtocolError, and nothing changed, if it is not right."""

    def waiting_for(self) -> tuple[Key, ...]:
        """Who is waited for."""

    def unreachable(self, key: Key, now: float) -> list[Action]:
        """A member can not be reached any more."""

    def gave_up(self, key: Key, now: float) -> list[Action]:
        """A member ended this session without a result."""

    def finished(self, key: Key, now: float) -> list[Action]:
        """A member shows the base that this session made."""

    def tick(self, now: float) -> list[Action]:
        """The deadline is over."""
