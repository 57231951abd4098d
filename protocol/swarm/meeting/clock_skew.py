"""What the peers' clocks show. No decision of a node depends on what a clock shows.

Each Hello and Roster carries the time of its sender's clock. This time minus the receiver's own is by how
much the sender's clock is ahead, up to the message's travel time. A message that an outage held up shows a
clock too far behind; what arrives with it was sent later, and shows another difference.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from protocol.wire.messages import Key

TOLERANCE_S = 10.0
"""Smaller differences are not shown: they may be a message's travel time."""
FEWEST = 2
"""Of fewer clocks that differ from this machine's, nobody can tell which one is wrong."""

LATER_MS, SAME_S = 5000, 2.0
"""A clock has fallen behind if a message that was sent so much later shows the same difference."""


@dataclass(frozen=True, slots=True)
class Skew:
    """The clock of the peer at an endpoint is `ahead_s` ahead of this machine's."""

    endpoint: str
    ahead_s: float


class Clocks:
    """The differences between the peers' clocks and this machine's."""

    def __init__(self) -> None:
        self.offset_s = 0.0
        """By how much this machine's clock is ahead of the shell's times."""
        self.set_s = 0.0
        """By how much of that somebody set it: this machine did not sleep meanwhile."""
        self.ahead: Mapping[Key, Skew] = {}
        """Replaced, never changed in place."""
        self._behind: dict[Key, tuple[int, float]] = {}
        """What may be a late message: what it shows, and by how much that is ahead."""

    def shown_ms(self, now: float) -> int:
        """What this machine's clock shows (Unix ms)."""
        return max(0, int((now + self.offset_s) * 1000))

    def heard(self, key: Key, endpoint: str, clock_ms: int, now: float) -> None:
        """Note what the clock of a peer at an endpoint shows (Unix ms); 0 means unknown."""
        if not clock_ms:
            return
        ahead_s, known = clock_ms / 1000 - (now + self.offset_s), self.ahead.get(key)
        has_fallen = known is not None and ahead_s <= -TOLERANCE_S and ahead_s <= known.ahead_s - SAME_S
        if not has_fallen or self._agrees(key, clock_ms, ahead_s):
            self._behind.pop(key, None)
            self.ahead = {**self.ahead, key: Skew(endpoint, ahead_s)}

    def _agrees(self, key: Key, clock_ms: int, ahead_s: float) -> bool:
        """Whether an earlier message showed this difference, too; else this one is kept for the next."""
        before_ms, before_s = self._behind.setdefault(key, (clock_ms, ahead_s))
        if abs(ahead_s - before_s) >= SAME_S:
            self._behind[key] = clock_ms, ahead_s
            return False
        return clock_ms - before_ms >= LATER_MS

    @property
    def differ(self) -> bool:
        """Whether the clock of any peer is wrong, or this machine's."""
        return any(abs(skew.ahead_s) >= TOLERANCE_S for skew in self.ahead.values())

    def most_heard(self, keys: Collection[Key]) -> bool:
        """Whether more than half of these peers sent their clocks; one clock does not show whose is wrong."""
        heard = sum(key in self.ahead for key in keys)
        return not keys or (2 * heard > len(keys) and len(self.ahead) >= FEWEST)

    def keep(self, keys: Collection[Key]) -> None:
        """Forget the clocks of all other peers."""
        if not all(key in keys for key in self.ahead):
            self.ahead = {key: skew for key, skew in self.ahead.items() if key in keys}
            self._behind = {key: shown for key, shown in self._behind.items() if key in keys}

    def step(self, offset_s: float, asleep_s: float) -> None:
        """This machine's clock shows `offset_s` more than the shell's times.

        `asleep_s`: how much of that the machine slept, while the shell's times stood still.
        """
        set_s = offset_s - asleep_s
        self._behind.clear()
        by_s, self.offset_s, self.set_s = set_s - self.set_s, offset_s, set_s
        self.ahead = {key: replace(skew, ahead_s=skew.ahead_s - by_s) for key, skew in self.ahead.items()}
