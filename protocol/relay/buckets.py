"""Token buckets: how much may be taken in a burst and in the long run. Time is an argument, in seconds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True)
class Rate:
    """At most `burst` at once, and `per_s` a second in the long run."""

    burst: float
    per_s: float


class Bucket:
    """What is left of one rate. It begins full."""

    __slots__ = ("_at_s", "_left", "_rate")

    def __init__(self, rate: Rate, now_s: float) -> None:
        self._rate = rate
        self._left = rate.burst
        self._at_s = now_s

    def has(self, count: float, now_s: float) -> bool:
        """Whether `count` can be taken now."""
        return self.left(now_s) >= count

    def take(self, count: float, now_s: float) -> bool:
        """Takes `count` if so much is left; returns whether it did."""
        if self.left(now_s) < count:
            return False
        self._left -= count
        return True

    def owe(self, count: float, now_s: float) -> float:
        """Takes `count`, left or not. Returns for how many seconds nothing is left from now on."""
        self._left = self.left(now_s) - count
        return max(0.0, -self._left / self._rate.per_s)

    def left(self, now_s: float) -> float:
        """How much can be taken now; below zero if more was taken than there was."""
        self._left = min(self._rate.burst, self._left + max(0.0, now_s - self._at_s) * self._rate.per_s)
        self._at_s = max(self._at_s, now_s)
        return self._left


class Buckets:
    """A bucket for each of the latest `most` that took something, such as addresses."""

    def __init__(self, rate: Rate, most: int) -> None:
        self._rate = rate
        self._most = most
        self._known: OrderedDict[Hashable, Bucket] = OrderedDict()

    def of(self, who: Hashable, now_s: float) -> Bucket:
        """The bucket of `who`. A new one replaces the one that was used longest ago."""
        found = self._known.pop(who, None) or Bucket(self._rate, now_s)
        self._known[who] = found
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return found
