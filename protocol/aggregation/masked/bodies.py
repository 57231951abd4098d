"""The time that a view gives to bulk which is on its way: once a view, and to no member twice."""

from __future__ import annotations

import math
from collections.abc import Iterable

from protocol.wire.ids import Key

_ALL_BUT = 1 / 8
"""Members give this time from different moments on: who had so much less of it had it all."""


class Bodies:
    """Whose bulk has begun to come. `seconds`: the time for all bodies of a member together."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._arriving: set[Key] = set()
        self._missed: set[Key] = set()
        """The members whose bulk was not here when that time was over: no view waits for it again."""
        self._given = -1
        """The last view that was given the time."""
        self._ends_at = math.inf

    def arriving(self, key: Key) -> None:
        """Something of a member's bulk has come."""
        self._arriving.add(key)

    def give(self, view: int, late: Iterable[Key], now: float) -> bool:
        """Whether a view goes on for these members: something of each has come, and none had it before."""
        if not self.seconds or view == self._given or not self._arriving - self._missed >= set(late):
            return False
        self._given, self._ends_at = view, now + self.seconds
        return True

    def left(self, view: int, owing: Iterable[Key], now: float) -> None:
        """A view is over in which these members still owed something."""
        if view == self._given and now >= self._ends_at - _ALL_BUT * self.seconds:
            self._missed.update(owing)
