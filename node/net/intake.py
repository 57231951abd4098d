"""Handles every incoming frame.

A frame arrives on a websocket that a peer opened, on one that this node opened, or as the body of a POST.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from node.cli.logs import Log
from node.net.reply_path import Back
from node.net.traffic import Counts, phase_of
from node.system.system import SYSTEM, Tap
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.wire import codec
from protocol.wire.limits import MAX_HEADER_BYTES
from protocol.wire.messages import Message

SMALL_BYTES = 64 * 1024
"""Larger frames travel as POST bodies, smaller ones on the websocket."""
MAX_CONTROL_BYTES = 4 + MAX_HEADER_BYTES + SMALL_BYTES
HEARTBEAT_S = 10.0
RELAYED_OPEN_S = 40.0
"""Time limit for each step in which a relayed stream opens, at both ends. Those of all members may open at
once, on a machine and a line of any speed, and TLS waits behind bulk. A relay says earlier who is away."""

Receive = Callable[[Message, Back], Awaitable[None]]

log = Log("transport")  # input from strangers is counted, and logged only at the level debug


class Intake:
    """Decodes frames, counts them and passes on their messages. `receive` may raise RemoteProtocolError."""

    def __init__(self, receive: Receive, counts: Counts, tap: Tap = SYSTEM.tap) -> None:
        self._receive = receive
        self._tap = tap
        self.counts = counts

    async def take(self, frame: bytes | memoryview, back: Back) -> None:
        """Handles one frame; `back` is the way back to its sender.

        Raises RemoteProtocolError, after counting it, for a frame that breaks a rule. Raises TooEarly without
        counting it, because the sender learns of it.
        """
        try:
            message = codec.decode(frame)
            self._tap("in", message)
            self.counts.received[phase_of(message)] += len(frame)
            await self._receive(message, back)
        except TooEarly:
            raise
        except RemoteProtocolError as error:
            self.drop(str(error))
            raise

    def drop(self, why: str) -> None:
        """Counts and logs a dropped input."""
        log.debug("dropped", why=why)
        self.counts.drop(why)
