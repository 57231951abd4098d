"""What a shell drives, be it over asyncio or under a simulated clock."""

from __future__ import annotations

from typing import Protocol

from protocol.actions import Action
from protocol.wire.messages import Key, Message


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
