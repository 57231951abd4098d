"""Processes that stand still for a moment, again and again, as on a busy machine, only far more often."""

from __future__ import annotations

import os
import random
import signal
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

BETWEEN_S = (0.05, 0.3)
STILL_S = (0.3, 0.7, 1.2, 2.0)


def python_below(pid: int) -> list[int]:
    """Returns the processes below this one that run Python, without those that are stopped."""
    children, runs = defaultdict[int, list[int]](list), dict[int, bool]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = stat.read_text().rpartition(") ")
            state, parent = rest.split()[:2]
            children[int(parent)].append(number := int(stat.parent.name))
            runs[number] = "(python" in name and state not in "TZ"
    found, parents = list[int](), [pid]
    while parents:
        below = children[parents.pop()]
        parents += below
        found += [one for one in below if runs[one]]
    return found


@contextmanager
def pauses(count: int, seed: int = 0) -> Iterator[None]:
    """Stops up to `count` processes below this one at a time, drawn from the seed, and lets them go on.

    One that somebody else stops meanwhile goes on, too.
    """
    over = Event()
    threads = [Thread(target=_pause, args=(over, random.Random(seed + one))) for one in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _pause(over: Event, draw: random.Random) -> None:
    while not over.wait(draw.uniform(*BETWEEN_S)):
        if found := python_below(os.getpid()):
            pid = draw.choice(found)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                over.wait(draw.choice(STILL_S))
                os.kill(pid, signal.SIGCONT)
