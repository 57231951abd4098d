"""Messages of a session that arrive before the GROUP they belong to: held within a bound, then handed on."""

from __future__ import annotations

from protocol.errors import TooEarly
from protocol.masked_messages import MaskedMessage, session_of
from protocol.messages import Share, Sid, Sum

EARLY_BYTES = 1 << 20
_OVERHEAD_BYTES = 256

Bulk = Share | Sum | MaskedMessage


def _session(message: Bulk) -> Sid:
    return message.sid if isinstance(message, Share | Sum) else session_of(message)


class Early:
    """At most `limit_bytes` of messages whose session, or place in it, is not known yet."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held: list[Bulk] = []
        self._bytes = 0

    def hold(self, message: Bulk) -> None:
        """Keep it; TooEarly if there is no room: the sender tries again."""
        size = len(getattr(message, "payload", b"")) + _OVERHEAD_BYTES
        if self._bytes + size > self._limit_bytes:
            raise TooEarly(f"{type(message).__name__} of a session that this node was not told of yet")
        self._held.append(message)
        self._bytes += size

    def take(self, sid: Sid) -> list[Bulk]:
        """What was held for this session, in order of arrival; everything else is dropped."""
        held = [message for message in self._held if _session(message) == sid]
        self.drop()
        return held

    def drop(self) -> None:
        """Forget everything."""
        self._held, self._bytes = [], 0
