"""Tickets: they show that a connection belongs to a link whose far end has proved its key.

A link proves its key once, by a signature. Its POST connections show the ticket that the link received, a
secret of 32 bytes. Tickets are looked up by their hash, so the time of a look-up reveals nothing about them.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from node.system.system import SYSTEM, Entropy

TICKET_BYTES = 32


class Tickets:
    """The tickets of one server: at most `at_most`; one more invalidates the oldest."""

    def __init__(self, at_most: int, entropy: Entropy = SYSTEM.entropy) -> None:
        self._entropy = entropy
        self._at_most = at_most
        self._owners: OrderedDict[bytes, bytes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._owners)

    def issue(self, key: bytes) -> bytes:
        """Returns a new ticket for the owner of this key."""
        ticket = self._entropy(TICKET_BYTES)
        self._owners[_hashed(ticket)] = key
        if len(self._owners) > self._at_most:
            self._owners.popitem(last=False)
        return ticket

    def owner(self, ticket: bytes) -> bytes | None:
        """Returns the key for which the ticket was issued; None for an unknown ticket."""
        return self._owners.get(_hashed(ticket))

    def forget(self, ticket: bytes) -> None:
        """Invalidates a ticket whose link has ended."""
        self._owners.pop(_hashed(ticket), None)


def _hashed(ticket: bytes) -> bytes:
    return hashlib.sha256(ticket).digest()
