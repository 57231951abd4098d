"""Runs a node to its end, and handles the signals that end it (node.runtime.record.ending lists all ends).

At the first SIGTERM or SIGINT the node finishes a round that has begun, within a time limit, and says goodbye
to the others. At the second it waits for nothing.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress

from node.observe.sd_notify import STOPPING, notify
from node.runtime.engine import Engine
from node.runtime.snapshot import Show

SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def until_done_or_told(peer: Engine, drain_timeout_s: float, show: Show | None) -> None:
    """Runs the peer, shown by `show`, until it is done or SIGINT or SIGTERM ends it. Raises its error."""
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


async def until_told(within_s: float) -> None:
    """Waits for SIGINT or SIGTERM, at most `within_s` seconds."""
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, told.set)
    try:
        with suppress(TimeoutError):
            await asyncio.wait_for(told.wait(), within_s)
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def until_over(peer: Engine, show: Show | None = None) -> None:
    """Runs the peer until it is done or told to end, then says goodbye. Raises the peer's error, if any.

    Afterwards the peer may train its rows alone, to compare.
    """
    life = asyncio.create_task(peer.run(show))
    await asyncio.wait((life,))
    error = life.exception()
    while isinstance(error, BaseExceptionGroup):  # of the peer's tasks
        error = error.exceptions[0]
    if error is not None:
        await peer.give_up(error)
        raise error
    await peer.leave()
    await peer.compare()
