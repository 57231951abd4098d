"""What went over the wire: bytes by phase, and what was dropped, by why."""

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
    """The phase whose bytes a message counts for."""
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
    """Bytes by phase since the start, and what was dropped, by why."""

    sent: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)

    def drop(self, why: str) -> None:
        """Something was dropped; of new reasons only so many are told apart."""
        self.drop_all(why, 1)

    def drop_all(self, why: str, count: int) -> None:
        """So many were dropped for one reason."""
        is_told_apart = why in self.dropped or len(self.dropped) < _KINDS_DROPPED
        if count:
            self.dropped[why if is_told_apart else _OTHERS] += count
