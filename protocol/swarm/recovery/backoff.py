"""How long what failed is not tried again: twice as long after each failure in a row."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
RETRY_S = 2.0
MAX_DOUBLINGS = 8
"""After failures in a row, something is tried again after 2 s, 4 s, ..., 512 s."""
FORGOTTEN_AFTER_S = 600.0
"""So long after it could be tried again a failure is forgotten."""


class Backoff(Generic[K]):
    """The failures in a row of each of several things, and until when it waits.

    `free`: how many of them cost no wait.
    """

    def __init__(self, free: int = 0) -> None:
        self._free = free
        self._failed: dict[K, tuple[int, float]] = {}

    def waits(self, what: K, now: float) -> bool:
        """Whether it is not to be tried yet."""
        return now < self._failed.get(what, (0, now))[1]

    def failed(self, what: K, now: float) -> None:
        """It was tried and failed."""
        before, _ = self._failed.get(what, (0, now))
        wait_s = RETRY_S * 2 ** min(before, MAX_DOUBLINGS) if before >= self._free else 0.0
        self._failed[what] = before + 1, now + wait_s

    def succeeded(self, what: K) -> None:
        """It was tried and went well: its failures are forgotten."""
        self._failed.pop(what, None)

    def forget(self, now: float) -> None:
        """Forget old failures."""
        self._failed = {
            what: (times, until)
            for what, (times, until) in self._failed.items()
            if now < until + FORGOTTEN_AFTER_S
        }
