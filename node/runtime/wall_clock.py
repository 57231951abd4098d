"""Watches the computer's wall clock while a node runs, so that the owner learns when somebody set it.

The node itself counts seconds by the monotonic clock, which nobody can set. That clock stops while a laptop
sleeps, so this module distinguishes sleep from a clock that was set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from node.system.clock import CLOCK, Clock

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


def read(clock: Clock) -> Reading:
    """Reads all clocks now."""
    monotonic_s = clock.monotonic()
    return Reading(clock.wall() - monotonic_s, clock.boot() - monotonic_s)


async def watch(tell: Callable[[float, float], Awaitable[None]], clock: Clock = CLOCK) -> None:
    """Calls `tell` whenever the wall clock has moved against the monotonic clock, until it is cancelled.

    The arguments of `tell(offset_s, asleep_s)` count from the start of the watch: by how much the wall clock
    is ahead of where it would be if nobody had set it and the computer had not slept, and how long it slept.
    """
    begun = told = read(clock)
    while True:
        await asyncio.sleep(LOOK_S)
        found = read(clock)
        if abs(found.wall_s - told.wall_s) >= NOTICED_S:
            told = found
            await tell(found.wall_s - begun.wall_s, found.asleep_s - begun.asleep_s)
