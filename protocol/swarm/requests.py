"""A node answers each request once: a request names its recipient, has its own number, and is signed.

An answer may have a million bytes, a request has 200: without this rule, anybody could replay a request to
amplify traffic. Machines name what they want and from whom; `Requests` alone numbers it. `Answered` keeps
the numbers that the other side has answered.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from protocol.swarm.node_state import NodeState, Settings
from protocol.wire import signing
from protocol.wire.bulk import Bulk
from protocol.wire.messages import Key, Message, Request

Asked = TypeVar("Asked", bound=Request)
WINDOW = 64
"""A request is still answered if its number is less than this below the highest one received."""


class Answered:
    """The answered requests of one sender: the anti-replay window of RFC 4303, section 3.4.3."""

    def __init__(self) -> None:
        self._epoch = -1
        self._numbers: set[int] = set()
        """Those received of the last WINDOW numbers."""

    def takes(self, epoch: int, number: int) -> bool:
        """Whether to answer this request; False if it came before, or is too old to tell."""
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
        """The messages for the node with this key, with the requests among them numbered and signed."""
        if not isinstance(messages, tuple) or not any(isinstance(each, Request) for each in messages):
            return messages
        return tuple(self._sign(to, each) if isinstance(each, Request) else each for each in messages)

    def _sign(self, to: Key, request: Asked) -> Asked:
        self._number += 1
        numbered = replace(request, to=to, epoch=self._state.epoch, number=self._number)
        return signing.sign(numbered, self._key)
