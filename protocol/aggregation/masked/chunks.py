"""The chunks of masked vectors: how a member makes its own, and holds those that it received."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from protocol.actions import Evidence
from protocol.aggregation.encoding import Encoding
from protocol.aggregation.equivocation import caught
from protocol.aggregation.masked.layout import Layout
from protocol.crypto.bulk_digest import bulk_digest
from protocol.crypto.node_key import NodeKey
from protocol.crypto.prg import Stream
from protocol.errors import RemoteProtocolError
from protocol.vectors.pieces import Vector, Words, raw
from protocol.vectors.shelf import Place, Shelf
from protocol.wire import signing
from protocol.wire.bulk import Bulk
from protocol.wire.ids import Key, Sid
from protocol.wire.masked_messages import Masked, MaskedHead


@dataclass(frozen=True)
class Masks:
    """A vector's masks, to add and to subtract, and the seed of its rounding."""

    added: tuple[Stream, ...]
    subtracted: tuple[Stream, ...]
    rounding: bytes


class MaskedVector:
    """This member's masked vector, made chunk by chunk, as fast as the wire sends it.

        y_i = encode(x_i) + G(b_i) + sum over j > i of G(K_ij) - sum over j < i of G(K_ij)   mod 2^w

    with member numbers i, j and words of w bits (Bonawitz et al. 2017, section 4, with both masks). Several
    threads may make chunks in any order: each chunk is built apart and then put on the shelf. `x` is a (d,)
    vector without NaN; it is released when every chunk has been made.
    """

    def __init__(
        self,
        x: Vector,
        masks: Masks,
        encoding: Encoding,
        layout: Layout,
        key: NodeKey,
        sid: Sid,
        shelf: Shelf,
    ) -> None:
        self._x: Vector | None = x
        self._masks = masks
        self._encoding = encoding
        self._layout = layout
        self._key = key
        self._sid = sid
        self._shelf = shelf
        self._chunks: list[Shelved | None] = [None] * layout.chunks

    def message(self, index: int) -> Masked:
        """Chunk `index`, signed."""
        return self._chunk(index).message()

    def words(self, index: int) -> Words:
        """The words of chunk `index`."""
        return np.frombuffer(self._chunk(index).place(), dtype=self._layout.ring.word)

    def _chunk(self, index: int) -> Shelved:
        """Chunk `index`; makes it if need be."""
        chunk, x = self._chunks[index], self._x
        if chunk is not None or x is None:
            return chunk or self._chunk(index)  # another thread has made it
        payload = raw(self._made(x, self._layout.chunk(index)), slice(None))
        head = MaskedHead(self._sid, self._key.public, index, bulk_digest(payload))
        chunk = Shelved(signing.sign(head, self._key), self._shelf.put(payload))
        self._chunks[index] = chunk
        if all(self._chunks):
            self._x = None
        return chunk

    def _made(self, x: Vector, part: slice) -> Words:
        words = np.empty(part.stop - part.start, dtype=self._layout.ring.word)
        ends = min(part.stop, len(x))
        words[: ends - part.start] = self._encoding.encoded(
            x[part.start : ends], self._masks.rounding, part.start
        )
        words[ends - part.start :] = 1  # the count slots
        for mask in self._masks.added:
            mask.add_to(words, part.start)
        for mask in self._masks.subtracted:
            mask.subtract_from(words, part.start)
        return words


@dataclass(frozen=True, slots=True)
class Shelved:
    """A chunk, whose payload is on the shelf."""

    head: MaskedHead
    place: Place

    def message(self) -> Masked:
        """The chunk as a message."""
        return Masked(self.head, self.place())


def masks_of(number: int, self_seed: bytes, pair_seeds: Sequence[bytes | None], rounding: bytes) -> Masks:
    """The masks of member `number`; `pair_seeds`: n seeds, None at its own number."""
    pairs = [(other, Stream(seed)) for other, seed in enumerate(pair_seeds) if seed is not None]
    above = tuple(mask for other, mask in pairs if other > number)
    below = tuple(mask for other, mask in pairs if other < number)
    return Masks((Stream(self_seed), *above), below, rounding)


@dataclass(frozen=True, slots=True, eq=False)
class SomeChunks(Bulk[Masked]):
    """Chunks to send: received ones as they came, this member's own by their index in `own`."""

    own: MaskedVector = field(repr=False)
    chunks: tuple[Shelved | int, ...]

    def __len__(self) -> int:
        """The number of messages."""
        return len(self.chunks)

    def at(self, index: int) -> Masked:
        """Message `index`."""
        chunk = self.chunks[index]
        return self.own.message(chunk) if isinstance(chunk, int) else chunk.message()


class Chunks:
    """All chunks that a member holds, by owner and index. Its own are made on first use."""

    def __init__(self, me: Key, layout: Layout, vector: MaskedVector, shelf: Shelf) -> None:
        self._me = me
        self._layout = layout
        self._shelf = shelf
        self.own = vector
        self._came: dict[tuple[Key, int], Shelved] = {}

    def holds(self, owner: Key, index: int) -> bool:
        """Whether this member has a chunk."""
        return owner == self._me or (owner, index) in self._came

    def of(self, places: Iterable[tuple[Key, int]]) -> SomeChunks:
        """Those of these chunks that this member has."""
        here = tuple(
            index if owner == self._me else self._came[owner, index]
            for owner, index in places
            if self.holds(owner, index)
        )
        return SomeChunks(self.own, here)

    def check(self, masked: Masked) -> Evidence | None:
        """Evidence if the sender signed another such chunk; RemoteProtocolError unless signed, whole, new."""
        head = masked.head
        if head.index >= self._layout.chunks or len(masked.payload) != self._layout.chunk_bytes(head.index):
            raise RemoteProtocolError(
                f"chunk {head.index} of a masked vector has {len(masked.payload)} bytes"
            )
        known = self._came.get((head.sender, head.index))
        if known is not None and known.head == head:
            raise RemoteProtocolError(f"chunk {head.index} of a masked vector is here already")
        signing.verify(head, head.sender)
        if known is not None:
            return caught(known.head, head)
        if not hmac.compare_digest(bulk_digest(masked.payload), head.digest):
            raise RemoteProtocolError(f"chunk {head.index} of a masked vector is not what its head names")
        return None

    def put(self, masked: Masked) -> None:
        """Keep a chunk that was checked."""
        chunk = Shelved(masked.head, self._shelf.put(masked.payload))
        self._came[masked.head.sender, masked.head.index] = chunk

    def contradicted(self, heads: Iterable[MaskedHead]) -> Evidence | None:
        """Evidence if a member signed another chunk than the one here; else None."""
        for head in heads:
            known = self._came.get((head.sender, head.index))
            if known is not None and known.head != head and head.sid == known.head.sid and is_signed(head):
                return caught(known.head, head)
        return None


def is_signed(head: MaskedHead) -> bool:
    """Whether the head's sender signed it."""
    try:
        signing.verify(head, head.sender)
    except RemoteProtocolError:
        return False
    return True
