"""The chunks of masked vectors that a member holds: its own, and those that came."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field

from protocol.actions import Evidence
from protocol.aggregation.masked.layout import Layout
from protocol.aggregation.masked.vector import MaskedVector
from protocol.crypto.bulk_digest import bulk_digest
from protocol.errors import RemoteProtocolError
from protocol.wire import codec
from protocol.wire.bulk import Bulk
from protocol.wire.ids import Key
from protocol.wire.masked_messages import Masked, MaskedHead

TWO_CHUNKS = "two different masked vectors in one session"


@dataclass(frozen=True, slots=True, eq=False)
class SomeChunks(Bulk[Masked]):
    """Chunks to send: those that came as they are, one's own by their index in `own`."""

    own: MaskedVector = field(repr=False)
    chunks: tuple[Masked | int, ...]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.chunks)

    def at(self, index: int) -> Masked:
        """One of them."""
        chunk = self.chunks[index]
        return self.own.message(chunk) if isinstance(chunk, int) else chunk


class Chunks:
    """By owner and index. One's own are made when they are asked for first."""

    def __init__(self, me: Key, layout: Layout, vector: MaskedVector) -> None:
        self._me = me
        self._layout = layout
        self.own = vector
        self._came: dict[tuple[Key, int], Masked] = {}

    def holds(self, owner: Key, index: int) -> bool:
        """Whether a chunk is here."""
        return owner == self._me or (owner, index) in self._came

    def of(self, places: Iterable[tuple[Key, int]]) -> SomeChunks:
        """Those of these chunks that are here now."""
        here = tuple(
            index if owner == self._me else self._came[owner, index]
            for owner, index in places
            if self.holds(owner, index)
        )
        return SomeChunks(self.own, here)

    def check(self, masked: Masked) -> Evidence | None:
        """RemoteProtocolError unless a chunk is signed, whole and new; evidence if there is another one."""
        head = masked.head
        if head.index >= self._layout.chunks or len(masked.payload) != 4 * self._layout.length(head.index):
            raise RemoteProtocolError(
                f"chunk {head.index} of a masked vector has {len(masked.payload)} bytes"
            )
        known = self._came.get((head.sender, head.index))
        if known is not None and known.head == head:
            raise RemoteProtocolError(f"chunk {head.index} of a masked vector is here already")
        codec.verify(head, head.sender)
        if known is not None:
            return Evidence(head.sender, TWO_CHUNKS, (known.head, head))
        if not hmac.compare_digest(bulk_digest(masked.payload), head.digest):
            raise RemoteProtocolError(f"chunk {head.index} of a masked vector is not what its head names")
        return None

    def put(self, masked: Masked) -> None:
        """A chunk that was checked."""
        self._came[masked.head.sender, masked.head.index] = masked

    def contradicted(self, heads: Iterable[MaskedHead]) -> Evidence | None:
        """Whether somebody signed another chunk than the one that is here."""
        for head in heads:
            known = self._came.get((head.sender, head.index))
            if known is not None and known.head != head and head.sid == known.head.sid and is_signed(head):
                return Evidence(head.sender, TWO_CHUNKS, (known.head, head))
        return None


def is_signed(head: MaskedHead) -> bool:
    """Whether its sender signed it."""
    try:
        codec.verify(head, head.sender)
    except RemoteProtocolError:
        return False
    return True
