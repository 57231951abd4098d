"""The seconds from the start of a cell to the end of each of its rounds, whatever the cell and the engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from scenarios.frame.work import Say
from scenarios.study.cells import Outcome


def clocked(run: Callable[[Say], Outcome], say: Say) -> Outcome:
    """Run a cell that calls what it is given at the end of each round; return its outcome with the clock.

    Each call also goes to `say`. A round of which nothing was said ended before the next one that was.
    """
    begun, ends = time.perf_counter(), dict[int, float]()

    def told(number: int, figure: float) -> None:
        ends[number] = time.perf_counter() - begun
        say(number, figure)

    outcome = run(told)
    last = time.perf_counter() - begun
    clock = list[float]()
    for number in range(len(outcome.figures), 0, -1):
        last = ends.get(number, last)
        clock.append(last)
    return replace(outcome, clock=tuple(reversed(clock)))
