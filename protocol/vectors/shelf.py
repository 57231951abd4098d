"""Where a member of a sum keeps long payloads until the sum needs them again: in memory, or in a file.

A masked sum keeps a member's own masked chunks, the chunks that it adds up and the totals: two vectors and
more. All must stay until one set of included members holds for the whole vector. The node says where.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

Payload = bytes | memoryview

Place = Callable[[], Payload]
"""Returns a kept payload, whole, any number of times and in any thread."""


class Shelf(Protocol):
    """Keeps payloads for as long as somebody has their places."""

    def put(self, payload: Payload) -> Place:
        """Keeps a payload. Several threads may call it."""


MakeShelf = Callable[[int], Shelf]
"""Makes the shelf of one sum, for about so many bytes."""


class Memory:
    """Keeps payloads where they are."""

    def put(self, payload: Payload) -> Place:
        """Keeps a payload, which nobody changes."""
        return partial(_as_it_is, payload)


def in_memory(size: int) -> Shelf:
    """Makes a shelf in memory for any number of bytes."""
    return Memory()


def _as_it_is(payload: Payload) -> Payload:
    return payload
