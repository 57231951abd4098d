"""The clocks of a computer. Whoever measures time gets a `Clock`, so that a test can hand in another one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


def _wall() -> float:
    return time.time()


def _boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass(frozen=True)
class Clock:
    """Three clocks, each a function that returns seconds."""

    monotonic: Callable[[], float] = time.monotonic
    """Nobody can set it; it stands still while the computer sleeps."""
    wall: Callable[[], float] = _wall
    """Unix seconds, as the computer's owner has set them."""
    boot: Callable[[], float] = _boot
    """Like `monotonic`, but it goes on while the computer sleeps."""


CLOCK = Clock()


class SteadyClock:
    """A clock of Unix seconds that never jumps: it starts with the wall clock and is monotonic from there."""

    def __init__(self, clock: Clock = CLOCK) -> None:
        self._clock = clock
        self._offset = clock.wall() - clock.monotonic()

    def now(self) -> float:
        """Returns the time in Unix seconds."""
        return self.at(self._clock.monotonic())

    def at(self, monotonic_s: float) -> float:
        """Returns the time in Unix seconds at a moment of the monotonic clock."""
        return monotonic_s + self._offset
