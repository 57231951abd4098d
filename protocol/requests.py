"""What this node asks of others: each request names whom it asks, has a number of its own, and is signed.

Machines say what they want and of whom. Here is the one place where that is numbered, so that nobody answers
a request twice: an answer may be a million bytes, a request is 200.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from protocol import codec
from protocol.messages import CertificateRequest, Key, Message, Request
from protocol.standing import Settings, Standing


class Requests:
    """The numbers of this node's requests."""

    def __init__(self, settings: Settings, standing: Standing) -> None:
        self._key = settings.key
        self._standing = standing
        self._number = 0

    def signed(self, to: Key, messages: Iterable[Message]) -> Iterable[Message]:
        """These messages to the node with this key, the requests among them ready to leave."""
        if not isinstance(messages, tuple) or not any(isinstance(each, Request) for each in messages):
            return messages
        return tuple(self._sign(to, each) if isinstance(each, Request) else each for each in messages)

    def _sign(self, to: Key, request: Request) -> Request:
        self._number += 1
        epoch, number = self._standing.epoch, self._number
        if isinstance(request, CertificateRequest):
            return codec.sign(replace(request, to=to, epoch=epoch, number=number), self._key)
        return codec.sign(replace(request, to=to, epoch=epoch, number=number), self._key)
