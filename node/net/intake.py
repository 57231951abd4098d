"""What becomes of a frame that came in, whichever way it came.

That is a websocket that somebody opened here, one that this node opened, or the body of a POST.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from node.logs import Log
from node.net.reply_path import Back
from node.net.traffic import Counts, phase_of
from protocol.errors import RemoteProtocolError, TooEarly
from protocol.wire import codec
from protocol.wire.limits import MAX_HEADER_BYTES
from protocol.wire.messages import Message

SMALL_BYTES = 64 * 1024
"""Larger frames go as POST bodies, smaller ones on the websocket."""
MAX_CONTROL_BYTES = 4 + MAX_HEADER_BYTES + SMALL_BYTES
HEARTBEAT_S = 10.0

Receive = Callable[[Message, Back], Awaitable[None]]

log = Log("transport")  # what strangers send is counted, and logged only at the level debug


class Intake:
    """Decodes frames, counts them, and hands their messages on. `receive` may raise RemoteProtocolError."""

    def __init__(self, receive: Receive, counts: Counts) -> None:
        self._receive = receive
        self._counts = counts

    async def take(self, frame: bytes | memoryview, back: Back) -> None:
        """One frame, and the way back to who sent it.

        What breaks a rule is counted, and raised. So is TooEarly, which is not counted: who sent it is told.
        """
        try:
            message = codec.decode(frame)
            self._counts.received[phase_of(message)] += len(frame)
            await self._receive(message, back)
        except TooEarly:
            raise
        except RemoteProtocolError as error:
            self.drop(str(error))
            raise

    def drop(self, why: str) -> None:
        """Something that came in was dropped."""
        log.debug("dropped", why=why)
        self._counts.drop(why)
