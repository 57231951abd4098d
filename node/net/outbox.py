"""Queues whose length in messages and in bytes is bounded: here, and in all of a node."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class Budget:
    """Bytes that may be held at once, here and in the whole that this is a part of."""

    limit_bytes: int
    whole: Budget | None
    taken_bytes: int = 0

    def take(self, count: int) -> bool:
        """Whether there is room for so many more; they are taken then."""
        if self.taken_bytes + count > self.limit_bytes:
            return False
        if self.whole is not None and not self.whole.take(count):
            return False
        self.taken_bytes += count
        return True

    def give(self, count: int) -> None:
        """So many are held no longer."""
        self.taken_bytes -= count
        if self.whole is not None:
            self.whole.give(count)


class Outbox(Generic[T]):
    """First in, first out, for one reader. The head stays where it is until the reader is done with it."""

    def __init__(self, most: int, budget: Budget) -> None:
        self._most = most
        self._budget = budget
        self._items: deque[tuple[T, int]] = deque()
        self._some = asyncio.Event()
        self._none = asyncio.Event()
        self._none.set()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T, size_bytes: int) -> bool:
        """Queue; False if there is no room."""
        if len(self._items) >= self._most or not self._budget.take(size_bytes):
            return False
        self._items.append((item, size_bytes))
        self._some.set()
        self._none.clear()
        return True

    async def head(self) -> T:
        """What is to go out next, as soon as there is something."""
        await self._some.wait()
        return self._items[0][0]

    def done(self) -> None:
        """The head is out."""
        _, size_bytes = self._items.popleft()
        self._budget.give(size_bytes)
        if not self._items:
            self._some.clear()
            self._none.set()

    async def drained(self) -> None:
        """Until everything is out."""
        await self._none.wait()

    def clear(self) -> tuple[T, ...]:
        """Drop what is here; what that was."""
        left = tuple(item for item, _ in self._items)
        for _ in left:
            self.done()
        return left
