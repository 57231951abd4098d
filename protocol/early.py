"""Messages of a session that arrive before the GROUP they belong to: held within a bound, then handed on."""

from __future__ import annotations

from collections import Counter

from protocol import codec
from protocol.errors import TooEarly
from protocol.masked_messages import MaskedMessage, sender_of, session_of
from protocol.messages import Share, Sid, Sum
from protocol.names import NOBODY, Key

EARLY_BYTES = 1 << 20
_OVERHEAD_BYTES = 256

Bulk = Share | Sum | MaskedMessage


def _session(message: Bulk) -> Sid:
    return message.sid if isinstance(message, Share | Sum) else session_of(message)


def _sender(message: Bulk) -> Key:
    return message.sender if isinstance(message, Share | Sum) else sender_of(message) or NOBODY


class Early:
    """At most `limit_bytes` of messages whose session, or place in it, is not known yet.

    `of_one_bytes`: of one sender, so that none takes the others' room. Headers count: one may be 190 kB.
    """

    def __init__(self, limit_bytes: int, of_one_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._of_one_bytes = of_one_bytes
        self._held: list[Bulk] = []
        self._bytes: Counter[Key] = Counter()

    def hold(self, message: Bulk) -> None:
        """Keep it; TooEarly if there is no room: the sender tries again."""
        sender, size = _sender(message), codec.frame_bytes(message) + _OVERHEAD_BYTES
        held = self._bytes.total() + size
        if held > self._limit_bytes or self._bytes[sender] + size > self._of_one_bytes:
            raise TooEarly(f"{type(message).__name__} of a session that this node was not told of yet")
        self._held.append(message)
        self._bytes[sender] += size

    def take(self, sid: Sid) -> list[Bulk]:
        """What was held for this session, in order of arrival; everything else is dropped."""
        held = [message for message in self._held if _session(message) == sid]
        self.drop()
        return held

    def drop(self) -> None:
        """Forget everything."""
        self._held, self._bytes = [], Counter()
