"""Detects wrong clocks, for people. No decision of a node depends on what a clock shows.

Each Hello and Roster carries the time of its sender's clock. This time minus the receiver's own is by how
much the sender's clock is ahead, up to the message's travel time.
"""

from __future__ import annotations

from collections.abc import Collection
from statistics import median

from protocol.wire.messages import Key

TOLERANCE_S = 10.0
"""Smaller differences are not reported: they may be a message's travel time."""
THIS_MACHINE = "this machine"
_FEWEST = 2
"""The least number of peers whose agreement shows that this machine's own clock is wrong."""


class Clocks:
    """The differences between the peers' clocks and this machine's."""

    def __init__(self) -> None:
        self.offset_s = 0.0
        """By how much this machine's clock is ahead of the shell's times."""
        self._asleep_s = 0.0
        self._ahead: dict[Key, float] = {}
        self._told: set[Key] = set()
        self._told_of_mine = False

    def shown_ms(self, now: float) -> int:
        """What this machine's clock shows (Unix ms)."""
        return max(0, int((now + self.offset_s) * 1000))

    def heard(self, key: Key, clock_ms: int, now: float) -> None:
        """Note what a peer's clock shows (Unix ms); 0 means unknown."""
        if clock_ms:
            self._ahead[key] = clock_ms / 1000 - (now + self.offset_s)

    def ahead_s(self, key: Key) -> float | None:
        """By how much a peer's clock is ahead of this machine's; None if unknown or below TOLERANCE_S."""
        ahead_s = self._ahead.get(key)
        return None if ahead_s is None or abs(ahead_s) < TOLERANCE_S else ahead_s

    def most_heard(self, keys: Collection[Key]) -> bool:
        """Whether more than half of these peers sent their clocks; one clock does not show whose is wrong."""
        heard = sum(key in self._ahead for key in keys)
        return not keys or (2 * heard > len(keys) and len(self._ahead) >= _FEWEST)

    @property
    def differ(self) -> bool:
        """Whether the clock of any peer is found wrong, or this machine's is."""
        return any(abs(ahead_s) >= TOLERANCE_S for ahead_s in self._ahead.values())

    def keep(self, keys: Collection[Key]) -> None:
        """Forget the clocks of all other peers."""
        self._ahead = {key: ahead_s for key, ahead_s in self._ahead.items() if key in keys}
        self._told.intersection_update(keys)

    def step(self, offset_s: float, asleep_s: float) -> str | None:
        """This machine's clock shows `offset_s` more than the shell's times; a text if somebody set it.

        `asleep_s`: how much of that the machine slept, while the shell's times stood still.
        """
        by_s = (offset_s - asleep_s) - (self.offset_s - self._asleep_s)
        self.offset_s, self._asleep_s = offset_s, asleep_s
        self._ahead = {key: ahead_s - by_s for key, ahead_s in self._ahead.items()}
        if abs(by_s) < TOLERANCE_S:
            return None
        self._told_of_mine = False
        way = "forward" if by_s > 0 else "back"
        return f"its clock was set {way} by {abs(by_s):.0f} s; rounds do not depend on it"

    def news(self) -> list[tuple[Key | None, str]]:
        """(peer, text) of each clock found wrong, once each; None stands for this machine."""
        mine = self._mine()
        if mine is not None:
            if self._told_of_mine:
                return []
            self._told_of_mine = True
            return [(None, mine)]
        news = [key for key, ahead_s in self._ahead.items() if abs(ahead_s) >= TOLERANCE_S]
        told, self._told = self._told, self._told | set(news)
        return [(key, _words(self._ahead[key], "this machine's")) for key in news if key not in told]

    def _mine(self) -> str | None:
        """The text about this machine's clock if most others show that it is wrong, else None."""
        if len(self._ahead) < _FEWEST:
            return None
        middle = median(self._ahead.values())
        agree = [ahead_s for ahead_s in self._ahead.values() if abs(ahead_s - middle) < TOLERANCE_S]
        if abs(middle) < TOLERANCE_S or 2 * len(agree) <= len(self._ahead):
            return None
        return _words(-middle, f"those of {len(agree)} of {len(self._ahead)} peers")


def _words(ahead_s: float, of: str) -> str:
    """The difference, and what to do."""
    return f"{skew_words(ahead_s, of)}: set it; rounds do not depend on it"


def skew_words(ahead_s: float, of: str) -> str:
    """The difference in words, such as `its clock is 100 s ahead of this machine's`."""
    return f"its clock is {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} {of}"
