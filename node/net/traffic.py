"""Counts of traffic: bytes on the wire by phase, and dropped items by reason."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from statistics import median

from protocol.wire.masked_messages import (
    Ack,
    Check,
    Dispute,
    Join,
    JoinCertificate,
    Joined,
    Masked,
    Propose,
    Release,
    Total,
    TotalPiece,
    ViewChange,
)
from protocol.wire.messages import Message, Share, Sum

_KINDS_DROPPED = 1000
_OTHERS = "others"


def phase_of(message: Message) -> str:
    """Returns the phase to which a message's bytes count."""
    match message:
        case Share() | Join() | Joined() | JoinCertificate():
            return "shares"
        case Sum() | Masked() | Total() | Check() | Dispute() | Ack() | Release():
            return "sums"
        case ViewChange() | Propose() | TotalPiece():
            return "sums"
        case _:
            return "group"


@dataclass
class Counts:
    """Bytes by phase and dropped items by reason, since the start."""

    sent: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)

    def drop(self, why: str) -> None:
        """Counts one dropped item; beyond 1,000 different reasons, new ones count as "others"."""
        self.drop_all(why, 1)

    def drop_all(self, why: str, count: int) -> None:
        """Counts several items dropped for one reason."""
        is_told_apart = why in self.dropped or len(self.dropped) < _KINDS_DROPPED
        if count:
            self.dropped[why if is_told_apart else _OTHERS] += count


class Uploads:
    """How fast bulk went to each peer since the last `restart`, frame by frame. Times are in seconds."""

    def __init__(self) -> None:
        self._done: dict[str, tuple[int, float]] = {}
        """Bytes and seconds of what went to each endpoint."""
        self._going: dict[str, tuple[int, float]] = {}
        """The frame that is on its way to an endpoint, and since when."""

    def restart(self) -> None:
        """Forgets what went so far."""
        self._done.clear()

    def begin(self, endpoint: str, size: int, now_s: float) -> None:
        """A frame is on its way."""
        self._going[endpoint] = size, now_s

    def end(self, endpoint: str, now_s: float) -> None:
        """That frame is no longer on its way."""
        size, since_s = self._going.pop(endpoint)
        done, lasted_s = self._done.get(endpoint, (0, 0.0))
        self._done[endpoint] = done + size, lasted_s + now_s - since_s

    def measured(self, now_s: float) -> tuple[int, float] | None:
        """Returns to how many peers bulk went, and this node's bytes per second to all of them together.

        It takes the median of the peers for all, as one that hangs takes nothing. A frame that is still on
        its way counts, as if it ended now, where that is slower than those before it. None: nothing went.
        """
        rates = {endpoint: size / lasted_s for endpoint, (size, lasted_s) in self._done.items() if lasted_s}
        for endpoint, (size, since_s) in self._going.items():
            if now_s > since_s:
                rates[endpoint] = min(rates.get(endpoint, math.inf), size / (now_s - since_s))
        return (len(rates), len(rates) * median(rates.values())) if rates else None
