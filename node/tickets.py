"""Tickets: by what a request beside a link, a POST, shows whose link it belongs to."""

from __future__ import annotations

import hashlib
import os

from protocol.handshake import TICKET_BYTES
from protocol.names import Key


class Tickets:
    """Who holds which. They are kept by their hashes: how long a look-up takes tells nothing of a ticket."""

    def __init__(self) -> None:
        self._owners: dict[bytes, Key] = {}

    def ticket(self, key: Key) -> bytes:
        """A new one, for the link on which `key` was proved."""
        secret = os.urandom(TICKET_BYTES)
        self._owners[_name(secret)] = key
        return secret

    def owner(self, ticket: bytes) -> Key | None:
        """Whose it is; None if it is nobody's (any more)."""
        return self._owners.get(_name(ticket))

    def forget(self, ticket: bytes) -> None:
        """Its link is gone."""
        self._owners.pop(_name(ticket), None)


def _name(ticket: bytes) -> bytes:
    return hashlib.sha256(ticket).digest()
