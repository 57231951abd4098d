"""A node's life to its end, and the signals that tell it to end (node.runtime.shutdown: all ends).

SIGTERM or SIGINT once: a round that has begun is ended, within a bound, then the others are told goodbye.
Twice: nothing is waited for.
"""

from __future__ import annotations

import asyncio
import signal

from node.observe.sd_notify import STOPPING, notify
from node.runtime.engine import Engine
from node.runtime.snapshot import Show

SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def until_done_or_told(peer: Engine, drain_timeout_s: float, show: Show | None) -> None:
    """Run the peer, shown by `show`, until it is done or SIGINT or SIGTERM ended it. Raises what broke it."""
    drains: list[asyncio.Task[None]] = []

    def interrupt() -> None:
        if drains:
            peer.stopping.at_once()
        else:
            notify(STOPPING)
            drains.append(asyncio.create_task(peer.drain(drain_timeout_s)))

    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, interrupt)
    try:
        await until_over(peer, show)
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        await asyncio.gather(*drains)


async def until_over(peer: Engine, show: Show | None = None) -> None:
    """Run the peer until it is over, or was told to end, and say goodbye. Raises what broke it."""
    life = asyncio.create_task(peer.run(show))
    await asyncio.wait((life,))
    _raise_first_error(life)
    await peer.leave()


def _raise_first_error(life: asyncio.Task[None]) -> None:
    """Raise what ended the peer, out of the groups that tasks wrap errors in."""
    error = life.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is not None:
        raise error
