"""Holds messages of a session that arrive before its GROUP, within a bound, until the session starts."""

from __future__ import annotations

from collections import Counter

from protocol.errors import TooEarly
from protocol.wire import codec
from protocol.wire.ids import NOBODY, Key
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.masked_messages import MaskedMessage, session_of
from protocol.wire.messages import Share, Sid, Sum

OF_ONE_BYTES = 128 * 1024
"""Room for one member's messages before the GROUP reaches this node; the member resends what exceeds it."""
OF_STRANGERS_BYTES = 256 * 1024
"""Room for all senders together that this node does not know as members."""
_OVERHEAD_BYTES = 256

Bulk = Share | Sum | MaskedMessage


def _session(message: Bulk) -> Sid:
    return message.sid if isinstance(message, Share | Sum) else session_of(message)


class ReorderBuffer:
    """Messages of a session, or of a view of it, that has not begun here yet.

    Each expected sender has room of its own, `of_one_bytes`, that no other can use up; all others share
    `of_strangers_bytes`. Headers count: one may have 190 kB.
    """

    def __init__(
        self, of_one_bytes: int = OF_ONE_BYTES, of_strangers_bytes: int = OF_STRANGERS_BYTES
    ) -> None:
        self._of_one_bytes = of_one_bytes
        self._of_strangers_bytes = of_strangers_bytes
        self._held: list[Bulk] = []
        self._bytes: Counter[Key] = Counter()

    def hold(self, message: Bulk, by: Key, is_expected: bool) -> None:
        """Hold a message that `by` brought. Raises TooEarly if there is no room, so that `by` resends it."""
        room, limit_bytes = (by, self._of_one_bytes) if is_expected else (NOBODY, self._of_strangers_bytes)
        size = codec.frame_bytes(message) + _OVERHEAD_BYTES
        is_full = room not in self._bytes and len(self._bytes) > MAX_MEMBERS
        if is_full or self._bytes[room] + size > limit_bytes:
            raise TooEarly(f"{type(message).__name__} of a session that this node was not told of yet")
        self._held.append(message)
        self._bytes[room] += size

    def take(self, sid: Sid) -> list[Bulk]:
        """Return the messages held for this session, in order of arrival, and drop all others."""
        held = [message for message in self._held if _session(message) == sid]
        self.drop()
        return held

    def drop(self) -> None:
        """Drop all messages."""
        self._held, self._bytes = [], Counter()
