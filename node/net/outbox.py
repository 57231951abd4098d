"""Queues bounded in messages and in bytes, each by itself and together across a node."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class Budget:
    """A bound on bytes held at once, in this part and in the `whole` that it belongs to."""

    limit_bytes: int
    whole: Budget | None
    taken_bytes: int = 0

    def take(self, count: int) -> bool:
        """Takes `count` bytes if there is room; returns whether it did."""
        if self.taken_bytes + count > self.limit_bytes:
            return False
        if self.whole is not None and not self.whole.take(count):
            return False
        self.taken_bytes += count
        return True

    def give(self, count: int) -> None:
        """Releases `count` bytes."""
        self.taken_bytes -= count
        if self.whole is not None:
            self.whole.give(count)


class Outbox(Generic[T]):
    """A FIFO queue for one reader. The head stays in the queue until the reader calls `done`."""

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
        """Queues an item; returns False if there is no room."""
        if len(self._items) >= self._most or not self._budget.take(size_bytes):
            return False
        self._items.append((item, size_bytes))
        self._some.set()
        self._none.clear()
        return True

    async def head(self) -> T:
        """Waits until the queue has an item and returns the head without removing it."""
        await self._some.wait()
        return self._items[0][0]

    def done(self) -> None:
        """Removes the head, which was sent."""
        _, size_bytes = self._items.popleft()
        self._budget.give(size_bytes)
        if not self._items:
            self._some.clear()
            self._none.set()

    async def drained(self) -> None:
        """Waits until the queue is empty."""
        await self._none.wait()

    def clear(self) -> tuple[T, ...]:
        """Empties the queue and returns its items."""
        left = tuple(item for item, _ in self._items)
        for _ in left:
            self.done()
        return left
