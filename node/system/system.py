"""The computer that a node runs on, as one value. Live nodes run on `SYSTEM`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from node.system.clock import CLOCK, Clock
from node.system.disk import DISK, Disk
from node.system.streams import KERNEL, Streams
from protocol.wire.limits import VERSION
from protocol.wire.messages import Message

Tap = Callable[[str, Message], None]
"""Is told `in` or `out`, and the message, before the message takes effect."""
Entropy = Callable[[int], bytes]
"""Returns so many random bytes, in a live node from the system's CSPRNG."""


def _unheard(way: str, message: Message) -> None:
    """In a live node nobody listens in."""


@dataclass(frozen=True)
class System:
    """Clocks, disk, streams and randomness, and the version of the protocol that the node's links speak.

    The event loop is part of the computer, too: `asyncio.to_thread` asks it for a thread, and its timers are
    those of `clock.monotonic`.
    """

    clock: Clock = CLOCK
    disk: Disk = DISK
    streams: Streams = KERNEL
    entropy: Entropy = os.urandom
    tap: Tap = _unheard
    version: int = VERSION


SYSTEM = System()
