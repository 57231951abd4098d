"""Watches the computer's wall clock while a node runs, so that the owner learns when somebody set it.

The node itself counts seconds by the monotonic clock, which nobody can set. That clock stops while a laptop
sleeps, so this module distinguishes sleep from a clock that was set.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

LOOK_S = 5.0
"""The interval between two readings."""
NOTICED_S = 1.0
"""Smaller differences are ignored: two clocks are never read at exactly the same moment."""


@dataclass(frozen=True)
class Reading:
    """The offset between the clocks at a moment."""

    wall_s: float
    """Unix seconds minus the monotonic clock."""
    asleep_s: float
    """How long this computer has slept since it was booted."""


def read() -> Reading:
    """Reads both clocks now."""
    monotonic_s = time.monotonic()
    booted_s = time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else monotonic_s
    return Reading(time.time() - monotonic_s, booted_s - monotonic_s)


async def watch(tell: Callable[[float, float], Awaitable[None]]) -> None:
    """Calls `tell` whenever the wall clock has moved against the monotonic clock, until it is cancelled.

    The arguments of `tell(offset_s, asleep_s)` count from the start of the watch: by how much the wall clock
    is ahead of where it would be if nobody had set it and the computer had not slept, and how long it slept.
    """
    begun = told = read()
    while True:
        await asyncio.sleep(LOOK_S)
        found = read()
        if abs(found.wall_s - told.wall_s) >= NOTICED_S:
            told = found
            await tell(found.wall_s - begun.wall_s, found.asleep_s - begun.asleep_s)
