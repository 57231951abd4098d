"""Requests are answered once: each names whom it asks, has a number of its own, and is signed.

An answer may be a million bytes, a request is 200: whoever said one again and again would have a lever.
Machines say what they want and of whom; `Requests` is the one place where that is numbered. `Answered` is the
other side's memory of numbers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from protocol.swarm.node_state import NodeState, Settings
from protocol.wire import codec
from protocol.wire.bulk import Bulk
from protocol.wire.messages import Key, Message, Request

Asked = TypeVar("Asked", bound=Request)
WINDOW = 64
"""So far may a request fall behind a later one on its way, and still be answered."""


class Answered:
    """Which requests of one sender were answered: the anti-replay window of RFC 4303, section 3.4.3."""

    def __init__(self) -> None:
        self._epoch = -1
        self._numbers: set[int] = set()
        """The last WINDOW, as far as they came."""

    def takes(self, epoch: int, number: int) -> bool:
        """Whether this request is to be answered; False for one that came already, or may have."""
        if epoch > self._epoch:
            self._epoch, self._numbers = epoch, set()
        highest = max(self._numbers, default=number)
        if epoch < self._epoch or number in self._numbers or number <= highest - WINDOW:
            return False
        self._numbers.add(number)
        self._numbers = {each for each in self._numbers if each > max(highest, number) - WINDOW}
        return True


class Requests:
    """The numbers of this node's requests."""

    def __init__(self, settings: Settings, state: NodeState) -> None:
        self._key = settings.key
        self._state = state
        self._number = 0

    def signed(
        self, to: Key, messages: tuple[Message, ...] | Bulk[Message]
    ) -> tuple[Message, ...] | Bulk[Message]:
        """These messages to the node with this key, the requests among them ready to leave."""
        if not isinstance(messages, tuple) or not any(isinstance(each, Request) for each in messages):
            return messages
        return tuple(self._sign(to, each) if isinstance(each, Request) else each for each in messages)

    def _sign(self, to: Key, request: Asked) -> Asked:
        self._number += 1
        numbered = replace(request, to=to, epoch=self._state.epoch, number=self._number)
        return codec.sign(numbered, self._key)
