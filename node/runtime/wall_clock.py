"""What the machine's clock shows, looked at while a node runs: for people, who are told when somebody set it.

The node itself counts seconds by the monotonic clock, which nobody can set. That one stands still while a
laptop sleeps; the time slept is told apart from a clock that was set.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

LOOK_S = 5.0
"""So often the clock is looked at."""
NOTICED_S = 1.0
"""A difference that is smaller is how two clocks are read one after the other."""


@dataclass(frozen=True)
class Reading:
    """How the clocks stand to each other at a moment."""

    wall_s: float
    """Unix seconds less the monotonic clock."""
    asleep_s: float
    """For how long this machine has slept since it was booted."""


def read() -> Reading:
    """Both, now."""
    monotonic_s = time.monotonic()
    booted_s = time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else monotonic_s
    return Reading(time.time() - monotonic_s, booted_s - monotonic_s)


async def watch(tell: Callable[[float, float], Awaitable[None]]) -> None:
    """Tell, until cancelled, whenever the clock has moved since the start.

    `tell(offset_s, asleep_s)`: by how much the wall's clock is ahead of where it would be without being set
    and without sleep, and how much of that the machine slept.
    """
    begun = told = read()
    while True:
        await asyncio.sleep(LOOK_S)
        found = read()
        if abs(found.wall_s - told.wall_s) >= NOTICED_S:
            told = found
            await tell(found.wall_s - begun.wall_s, found.asleep_s - begun.asleep_s)
