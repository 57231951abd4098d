"""One's own masked vector, made chunk by chunk, as the wire takes it.

    y_i = encode(x_i) + G(b_i) + sum over j > i of G(K_ij) - sum over j < i of G(K_ij)   mod 2^32

with i, j by member number (Bonawitz et al. 2017, section 4, with both masks). Chunks are made in whatever
order they are asked for, by several threads at once: each is built apart and then put in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from protocol.aggregation.fixed_point import FixedPoint
from protocol.aggregation.masked.layout import Layout
from protocol.crypto.bulk_digest import bulk_digest
from protocol.crypto.node_key import NodeKey
from protocol.crypto.prg import Stream
from protocol.vectors.pieces import Floats, Words, raw
from protocol.wire import codec
from protocol.wire.ids import Sid
from protocol.wire.masked_messages import Masked, MaskedHead


@dataclass(frozen=True)
class Masks:
    """A vector's masks: those that are added, those that are subtracted; the seed of its rounding."""

    added: tuple[Stream, ...]
    subtracted: tuple[Stream, ...]
    rounding: bytes


class MaskedVector:
    """`x` is a (d,) float32 vector without NaN; it is let go when every chunk has been made."""

    def __init__(
        self, x: Floats, masks: Masks, point: FixedPoint, layout: Layout, key: NodeKey, sid: Sid
    ) -> None:
        self._x: Floats | None = x
        self._masks = masks
        self._point = point
        self._layout = layout
        self._key = key
        self._sid = sid
        self._words: Words = np.empty(layout.words, dtype="<u4")
        self._heads: list[MaskedHead | None] = [None] * layout.chunks

    def message(self, index: int) -> Masked:
        """Chunk `index`, signed."""
        return Masked(self.head(index), raw(self._words, self._layout.chunk(index)))

    def words(self, index: int) -> Words:
        """Chunk `index`, (w,) uint32."""
        self.head(index)
        return self._words[self._layout.chunk(index)]

    def head(self, index: int) -> MaskedHead:
        """The signed head of chunk `index`, which is made if it is not there yet."""
        head, x = self._heads[index], self._x
        if head is not None or x is None:
            return head or self.head(index)
        part = self._layout.chunk(index)
        made = self._made(x, part)
        digest = bulk_digest(raw(made, slice(None)))
        head = codec.sign(MaskedHead(self._sid, self._key.public, index, digest), self._key)
        self._words[part] = made
        self._heads[index] = head
        if all(self._heads):
            self._x = None
        return head

    def _made(self, x: Floats, part: slice) -> Words:
        words = np.empty(part.stop - part.start, dtype="<u4")
        ends = min(part.stop, len(x))
        words[: ends - part.start] = self._point.encoded(
            x[part.start : ends], self._masks.rounding, part.start
        )
        words[ends - part.start :] = 1  # the count slot
        for mask in self._masks.added:
            mask.add_to(words, part.start)
        for mask in self._masks.subtracted:
            mask.subtract_from(words, part.start)
        return words


def masks_of(number: int, self_seed: bytes, pair_seeds: Sequence[bytes | None], rounding: bytes) -> Masks:
    """The masks of member `number`; `pair_seeds` (n), None in its own place."""
    pairs = [(other, Stream(seed)) for other, seed in enumerate(pair_seeds) if seed is not None]
    above = tuple(mask for other, mask in pairs if other > number)
    below = tuple(mask for other, mask in pairs if other < number)
    return Masks((Stream(self_seed), *above), below, rounding)
