"""The way back: it carries replies to the sender of a message, on the link that brought the message."""

from __future__ import annotations

from typing import Protocol

from node.net.traffic import Counts
from protocol.wire.ids import Key
from protocol.wire.messages import Message

NO_WAY_BACK = "a reply to who has no link"


class Back(Protocol):
    """The way back to the sender of a message."""

    @property
    def key(self) -> Key | None:
        """The key that was proved on the link; None if none was."""

    def send(self, messages: tuple[Message, ...]) -> None:
        """Sends messages back to that peer only; counts those without room or without a link any more."""


class Nowhere:
    """The way back to a peer without an open websocket."""

    def __init__(self, key: Key | None, counts: Counts) -> None:
        self.key = key
        self._counts = counts

    def send(self, messages: tuple[Message, ...]) -> None:
        """Drops the messages and counts them."""
        self._counts.drop_all(NO_WAY_BACK, len(messages))
