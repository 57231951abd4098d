"""Decides when a message that arrived too early is sent again, and when the node gives it up.

If the far side does not know a message's session yet, the node sends the message again, in growing intervals:
as long as that session runs here, and any other message for a limited time. Over a POST, the answer reports
this; over a websocket, a frame back does, which names the message by its number (protocol.wire.handshake). So
a node keeps the last messages of each websocket.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from node.net.outbox import Budget
from protocol.wire.codec import Frame
from protocol.wire.messages import Message

AGAIN_FIRST_S = 0.05
AGAIN_CAP_S = 1.0
AGAIN_FOR_S = 15.0
"""How long a message is offered whose session does not run here, or no longer."""
KEPT_FRAMES = 64
"""How many messages sent on one websocket are kept in case the far side requests them again."""
KEPT_BYTES = 1 << 20


@dataclass
class Outgoing:
    """An encoded message on its way."""

    message: Message
    frame: Frame
    tries: int = 0
    """How often the message arrived too early."""
    refused_s: float = 0.0
    """When it arrived too early for the first time."""
    end: asyncio.Future[bool] | None = None
    """Receives whether the message was sent, once that is certain; None if nobody waits for it."""

    def ended(self, went: bool) -> None:
        """Reports whether the message was sent; only the first report counts."""
        if self.end is not None and not self.end.done():
            self.end.set_result(went)

    def again_in_s(self, now_s: float, is_wanted: bool) -> float | None:
        """Returns in how many seconds to send a message again that arrived too early; None to give it up.

        Its sender is sure of a message `is_wanted`: it is never given up.
        """
        if self.tries == 0:
            self.refused_s = now_s
        wait_s = min(AGAIN_CAP_S, AGAIN_FIRST_S * 2.0**self.tries)
        self.tries += 1
        return wait_s if is_wanted or now_s + wait_s - self.refused_s <= AGAIN_FOR_S else None


class Kept:
    """The last messages sent on one websocket, by their numbers."""

    def __init__(self, budget: Budget) -> None:
        """`budget` bounds the bytes that all websockets of a node keep together."""
        self._budget = Budget(KEPT_BYTES, budget)
        self._kept: OrderedDict[int, Outgoing] = OrderedDict()
        self._sent = 0

    def sent(self, outgoing: Outgoing) -> None:
        """Keeps the message that was sent next and drops older ones to make room."""
        number, size = self._sent, len(outgoing.frame)
        self._sent += 1
        if len(self._kept) >= KEPT_FRAMES:
            self._drop_oldest()
        while not (has_room := self._budget.take(size)) and self._kept:
            self._drop_oldest()
        if has_room:
            self._kept[number] = outgoing

    def take(self, number: int) -> Outgoing | None:
        """Removes and returns the message with this number; None if it is not kept any more."""
        return self._drop(number) if number in self._kept else None

    def clear(self) -> None:
        """Drops all kept messages."""
        for number in list(self._kept):
            self._drop(number)

    def _drop_oldest(self) -> None:
        self._drop(next(iter(self._kept)))

    def _drop(self, number: int) -> Outgoing:
        outgoing = self._kept.pop(number)
        self._budget.give(len(outgoing.frame))
        return outgoing
