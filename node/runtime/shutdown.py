"""How a node is told to end: what has begun comes to its end first; told again, nothing is waited for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Stopping:
    """Asked for once, and then at once; neither is ever taken back."""

    def __init__(self) -> None:
        self.training = threading.Event()
        """Set when asked: training ends between two batches, in whatever thread it is."""
        self._at_once = asyncio.Event()

    @property
    def asked(self) -> bool:
        """Whether nothing new is to be begun."""
        return self.training.is_set()

    def ask(self) -> None:
        """Begin nothing new."""
        self.training.set()

    def at_once(self) -> None:
        """Wait for nothing more."""
        self.training.set()
        self._at_once.set()

    async def unless(self, wait: Awaitable[T]) -> T | None:
        """The wait's result; None if this node is to end at once before."""
        waiting = asyncio.ensure_future(wait)
        stopped = asyncio.create_task(self._at_once.wait())
        try:
            await asyncio.wait((waiting, stopped), return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else None
        finally:
            waiting.cancel()
            stopped.cancel()
