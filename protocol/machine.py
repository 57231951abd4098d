"""The interface of a machine that a shell drives, with asyncio or with a simulated clock."""

from __future__ import annotations

from typing import Protocol

from protocol.actions import Action
from protocol.wire.messages import Key, Message


class Machine(Protocol):
    """A node or a tracker. Times are Unix seconds; the order of actions matters."""

    @property
    def deadline(self) -> float | None:
        """When tick is due; None: never."""

    def receive(self, message: Message, by: Key | None, now: float) -> list[Action]:
        """Process a message. `by`: the key proved on the link that brought it; None: no key was proved."""

    def unreachable(self, endpoint: str, why: str, now: float) -> list[Action]:
        """An endpoint does not answer."""

    def reconnected(self, endpoint: str, now: float) -> list[Action]:
        """A link broke and was opened again."""

    def tick(self, now: float) -> list[Action]:
        """Act on the deadline, if it is over."""
