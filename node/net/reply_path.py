"""The way back: to who brought a message, on the link that it came by."""

from __future__ import annotations

from typing import Protocol

from node.net.traffic import Counts
from protocol.wire.ids import Key
from protocol.wire.messages import Message

NO_WAY_BACK = "a reply to who has no link"


class Back(Protocol):
    """Who brought a message, and how it is answered."""

    @property
    def key(self) -> Key | None:
        """Whose key was proved on the link; None: nobody's."""

    def send(self, messages: tuple[Message, ...]) -> None:
        """Send these back there, and nowhere else; what has no room, or no link any more, is counted."""


class Nowhere:
    """The way back to who has no websocket that stands."""

    def __init__(self, key: Key | None, counts: Counts) -> None:
        self.key = key
        self._counts = counts

    def send(self, messages: tuple[Message, ...]) -> None:
        """They are dropped."""
        self._counts.drop_all(NO_WAY_BACK, len(messages))
