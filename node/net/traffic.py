"""Counts of traffic: bytes on the wire by phase, and dropped items by reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

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
