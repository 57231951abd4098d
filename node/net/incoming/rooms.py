"""A room: a bounded set of entries, in total and per origin, that evicts the oldest entries first.

A room knows neither sockets nor clocks. The weight of an entry is 1 when a room counts connections and its
size in bytes when a room counts buffers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Bound:
    """At most `in_all` entries, `per_origin` of one origin, each for at most `within_s` (None: no limit)."""

    in_all: int
    per_origin: int
    within_s: float | None = None

    def shrunk(self, share: float) -> Bound:
        """Returns the bound scaled by `share`, for a machine with less room; it admits at least one entry."""
        in_all = max(1, int(self.in_all * share))
        return Bound(in_all, min(self.per_origin, in_all), self.within_s)


@dataclass(frozen=True, slots=True)
class _Entry:
    origin: Hashable
    weight: int
    since_s: float


class Room(Generic[T]):
    """Entries in the order in which they entered or last made progress."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self._entries: OrderedDict[T, _Entry] = OrderedDict()
        self._of_origin: dict[Hashable, OrderedDict[T, None]] = {}
        self._weight_of_origin: dict[Hashable, int] = {}
        self.weight = 0
        """The total weight of all entries."""

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, who: T) -> bool:
        return who in self._entries

    def __iter__(self) -> Iterator[T]:
        """Yields the entries, oldest first."""
        return iter(tuple(self._entries))

    def enter(self, who: T, origin: Hashable, now_s: float, weight: int = 1) -> Iterator[T]:
        """Adds `who` as the newest entry, with this weight, and returns the entries that it displaces.

        Those have already left the room. The newest entry is never among them.
        """
        self.leave(who)
        self._entries[who] = _Entry(origin, weight, now_s)
        self._of_origin.setdefault(origin, OrderedDict())[who] = None
        self._weigh(origin, weight)
        gone: list[T] = []
        while self._weight_of_origin[origin] > self.bound.per_origin:
            oldest = next(iter(self._of_origin[origin]))
            if oldest == who:
                break
            self.leave(oldest)
            gone.append(oldest)
        while self.weight > self.bound.in_all:
            oldest = next(iter(self._entries))
            if oldest == who:
                break
            self.leave(oldest)
            gone.append(oldest)
        return iter(gone)

    def leave(self, who: T) -> None:
        """Removes an entry if it is in the room."""
        entry = self._entries.pop(who, None)
        if entry is None:
            return
        del self._of_origin[entry.origin][who]
        self._weigh(entry.origin, -entry.weight)
        if not self._of_origin[entry.origin]:
            del self._of_origin[entry.origin], self._weight_of_origin[entry.origin]

    def overdue(self, now_s: float) -> Iterator[T]:
        """Removes and yields the entries that have stayed longer than `within_s`, oldest first."""
        within_s = self.bound.within_s
        while within_s is not None and self._entries:
            who, entry = next(iter(self._entries.items()))
            if now_s < entry.since_s + within_s:
                return
            self.leave(who)
            yield who

    def _weigh(self, origin: Hashable, weight: int) -> None:
        self.weight += weight
        self._weight_of_origin[origin] = self._weight_of_origin.get(origin, 0) + weight
