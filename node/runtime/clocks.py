"""Which clocks are wrong, in words: a peer's, or this machine's. Nothing but people depends on a clock."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import TypeVar

from node.runtime.record.events import Noticed
from protocol.actions import Note, Notice
from protocol.swarm.meeting.clock_skew import FEWEST, TOLERANCE_S, Skew
from protocol.wire.ids import Key

THIS_MACHINE = "this machine"
K = TypeVar("K")


class ClockNotices:
    """Tells an owner once of each clock that is wrong, and each time that somebody sets this machine's."""

    def __init__(self) -> None:
        self._told: set[Key | None] = set()
        self._set_s = 0.0
        self._last: Mapping[Key, Skew] = {}

    def since(self, set_s: float, clocks: Mapping[Key, Skew]) -> list[Noticed]:
        """What is new since the last call. A clock is told of again once its peer was forgotten.

        `set_s`: by how much somebody has set this machine's clock so far. The peers' clocks are compared with
        it only once they are known anew.
        """
        by_s, self._set_s = set_s - self._set_s, set_s
        if abs(by_s) >= TOLERANCE_S:
            self._told.discard(None)
            way = "forward" if by_s > 0 else "back"
            return [_of(f"its clock was set {way} by {abs(by_s):.0f} s; rounds do not depend on it")]
        if clocks == self._last:
            return []
        self._last = clocks
        wrong = wrong_clocks({key: skew.ahead_s for key, skew in clocks.items()})
        fresh = [key for key in wrong if key not in self._told]
        self._told = {*(self._told & {None, *clocks}), *fresh}
        return [_of(wrong[key], "" if key is None else clocks[key].endpoint) for key in fresh]


def _of(text: str, who: str = "") -> Noticed:
    return Noticed(Notice(Note.CLOCK, who), f"{who or THIS_MACHINE}: {text}")


def wrong_clocks(ahead_s: Mapping[K, float]) -> dict[K | None, str]:
    """Returns what is wrong with the clocks of some, by how much each is ahead of this machine's.

    None stands for this machine: its clock is wrong if most others agree that it is.
    """
    if len(ahead_s) >= FEWEST:
        middle = median(ahead_s.values())
        agree = sum(abs(each - middle) < TOLERANCE_S for each in ahead_s.values())
        if abs(middle) >= TOLERANCE_S and 2 * agree > len(ahead_s):
            return {None: _words(-middle, f"those of {agree} of {len(ahead_s)} peers")}
    return {key: _words(each, "this machine's") for key, each in ahead_s.items() if abs(each) >= TOLERANCE_S}


def _words(ahead_s: float, of: str) -> str:
    """The difference, and what to do."""
    return f"{skew_words(ahead_s, of)}: set it; rounds do not depend on it"


def skew_words(ahead_s: float, of: str) -> str:
    """Returns a difference in words, such as `its clock is 100 s ahead of this machine's`."""
    return f"its clock is {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} {of}"
