"""The end of a node's part: after its last round it serves what it holds until the others have it, too.

These are the phases `closing` and `closed` of protocol.swarm.phases.
"""

from __future__ import annotations

from protocol.swarm.meeting.membership import Members
from protocol.swarm.node_state import Standing
from protocol.swarm.recovery.fetch import PATIENCE_S

LINGER_S = 10.0


class Closing:
    """Waits for the others' confirmation, which is their announcement of this node's base and round.

    Who shows an open vote in a session in which this node has one, too, may still finish it with this node.
    """

    def __init__(self, standing: Standing, members: Members) -> None:
        self._standing = standing
        self._members = members
        self.until: float | None = None
        """How long this node lingers at most (Unix s); None before its last round is over."""

    def begin(self, others_need_s: float, now: float) -> None:
        """Linger LINGER_S, or longer where the others may still be waiting for a sum.

        `others_need_s`: how long they may; they need the certificate afterwards.
        """
        self.until = now + max(LINGER_S, others_need_s + PATIENCE_S)

    def is_over(self, fetching: bool, now: float) -> bool:
        """Whether this node may go; before its time not while it is itself `fetching` or storing a base."""
        return self.until is not None and (now >= self.until or self._confirmed(fetching))

    def _confirmed(self, fetching: bool) -> bool:
        if fetching:
            return False
        base, round = self._standing.base, self._standing.round
        live = (self._members.get(key) for key in self._members.live(round))
        bound = {sid for sid, vote in self._standing.votes.items() if vote.group is not None}
        return all(
            a is None or (a.base == base and a.round >= round and bound.isdisjoint(a.open)) for a in live
        )
