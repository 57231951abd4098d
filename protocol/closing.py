"""The end of a node's part: after its last round it serves what it holds until the others have it, too.

open --close--> closing --every live peer confirmed this base, or the time to linger is over--> closed
"""

from __future__ import annotations

from protocol.actions import Action, Closed
from protocol.membership import Members
from protocol.recovery import PATIENCE_S
from protocol.standing import Standing

LINGER_S = 10.0


class Closing:
    """Waits for the others' confirmation, which is their announcement of this node's base and round."""

    def __init__(self, standing: Standing, members: Members) -> None:
        self._standing = standing
        self._members = members
        self._closed = False
        self.until: float | None = None
        """How long this node lingers at most; None before its last round is over."""

    def begin(self, others_need_s: float, now: float) -> None:
        """Linger LINGER_S, or longer where the others may still be waiting for a sum.

        `others_need_s`: how long they may; they need the certificate afterwards.
        """
        self.until = now + max(LINGER_S, others_need_s + PATIENCE_S)

    def end(self, fetching: bool, now: float) -> list[Action]:
        """Closed, once, when it is over; not while this node itself is `fetching` or storing a base."""
        if self.until is None or self._closed or not (now >= self.until or self._confirmed(fetching)):
            return []
        self._closed = True
        return [Closed()]

    def _confirmed(self, fetching: bool) -> bool:
        if fetching:
            return False
        base, round = self._standing.base, self._standing.round
        live = (self._members.get(key) for key in self._members.live(round))
        return all(a is None or (a.base == base and a.round >= round) for a in live)

    @property
    def deadline(self) -> float | None:
        """When the lingering is over."""
        return None if self._closed else self.until
