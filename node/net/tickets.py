"""Tickets: what shows that a connection belongs to a link whose far end has proved its key.

A link is proved once, by a signature. The POST connections beside it show the ticket that the link was given,
a secret of 32 bytes. Tickets are looked up by their hash, so the time that it takes says nothing of them.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict

TICKET_BYTES = 32


class Tickets:
    """The tickets of one server: at most `at_most`; beyond that the oldest one is worth nothing any more."""

    def __init__(self, at_most: int) -> None:
        self._at_most = at_most
        self._owners: OrderedDict[bytes, bytes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._owners)

    def issue(self, key: bytes) -> bytes:
        """A new ticket for the owner of this key."""
        ticket = os.urandom(TICKET_BYTES)
        self._owners[_hashed(ticket)] = key
        if len(self._owners) > self._at_most:
            self._owners.popitem(last=False)
        return ticket

    def owner(self, ticket: bytes) -> bytes | None:
        """The key for which it was issued; None where there is no such ticket."""
        return self._owners.get(_hashed(ticket))

    def forget(self, ticket: bytes) -> None:
        """It is worth nothing any more: its link has ended."""
        self._owners.pop(_hashed(ticket), None)


def _hashed(ticket: bytes) -> bytes:
    return hashlib.sha256(ticket).digest()
