"""Messages that came too early at the far side: when they are sent again, and when no more.

A message of a session that the far side has not been told of is worth sending again: in growing intervals,
and not for ever. Over a POST the answer says so; over a websocket a frame back does, which names the message
by its number (protocol.wire.handshake). So the last ones that went out on a websocket are kept for a while.
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
KEPT_FRAMES = 64
"""Sent on one websocket, and held in case that they are asked for again."""
KEPT_BYTES = 1 << 20


@dataclass
class Outgoing:
    """An encoded message on its way."""

    message: Message
    frame: Frame
    tries: int = 0
    """How often it came too early."""
    refused_s: float = 0.0
    """When it did first."""
    end: asyncio.Future[bool] | None = None
    """Is told whether it went, once it has gone or never will; None: nobody wants to know."""

    def ended(self, went: bool) -> None:
        """It went, or never will: the first word counts."""
        if self.end is not None and not self.end.done():
            self.end.set_result(went)

    def again_in_s(self, now_s: float) -> float | None:
        """It came too early: in how many seconds to send it again; None: it was sent often enough."""
        if self.tries == 0:
            self.refused_s = now_s
        wait_s = min(AGAIN_CAP_S, AGAIN_FIRST_S * 2.0**self.tries)
        self.tries += 1
        return wait_s if now_s + wait_s - self.refused_s <= AGAIN_FOR_S else None


class Kept:
    """The last messages of one websocket, by their numbers."""

    def __init__(self, budget: Budget) -> None:
        """`budget`: what all websockets of a node may keep together."""
        self._budget = Budget(KEPT_BYTES, budget)
        self._kept: OrderedDict[int, Outgoing] = OrderedDict()
        self._sent = 0

    def sent(self, outgoing: Outgoing) -> None:
        """The next message went out; older ones make room for it."""
        number, size = self._sent, len(outgoing.frame)
        self._sent += 1
        if len(self._kept) >= KEPT_FRAMES:
            self._drop_oldest()
        while not (has_room := self._budget.take(size)) and self._kept:
            self._drop_oldest()
        if has_room:
            self._kept[number] = outgoing

    def take(self, number: int) -> Outgoing | None:
        """The message with this number, which is kept no longer; None if it was not any more."""
        return self._drop(number) if number in self._kept else None

    def clear(self) -> None:
        """Keep nothing."""
        for number in list(self._kept):
            self._drop(number)

    def _drop_oldest(self) -> None:
        self._drop(next(iter(self._kept)))

    def _drop(self, number: int) -> Outgoing:
        outgoing = self._kept.pop(number)
        self._budget.give(len(outgoing.frame))
        return outgoing
