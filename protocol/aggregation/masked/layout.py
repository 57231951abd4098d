"""How a masked vector is cut into chunks, and which member adds up which.

A chunk is at most one piece (1 MiB) and one frame. In view 0 chunk c is added up by member c mod n; so
there are at least n chunks, and a multiple of n. Where 4 d is below ALL_TO_ALL_BYTES there is one chunk and
everybody adds it up: what that costs in bytes it saves in two steps of messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from protocol.vectors.pieces import PIECE_WORDS

ALL_TO_ALL_BYTES = 64 * 1024
COUNT_SLOTS = 1
_BLOCK_WORDS = 4


@dataclass(frozen=True)
class Layout:
    """Of a (d,) vector and its count slot, for a group of `members`."""

    dimension: int
    members: int
    all_to_all_bytes: int = ALL_TO_ALL_BYTES
    """Below this size of a vector everybody adds up: a parameter, equal for all members."""

    @cached_property
    def words(self) -> int:
        """d + 1: behind the vector every member adds a 1, so that a wrong mask shows in the sum."""
        return self.dimension + COUNT_SLOTS

    @cached_property
    def everybody_adds(self) -> bool:
        """Whether there is one chunk, which every member has from every other."""
        return 4 * self.dimension < self.all_to_all_bytes

    @cached_property
    def _chunk_words(self) -> int:
        """A multiple of the cipher's block."""
        rounds = -(-self.words // (PIECE_WORDS * self.members))
        share = -(-self.words // (rounds * self.members))
        return min(PIECE_WORDS, -(-share // _BLOCK_WORDS) * _BLOCK_WORDS)

    @cached_property
    def chunks(self) -> int:
        """How many there are; all but the last are equally long."""
        return 1 if self.everybody_adds else -(-self.words // self._chunk_words)

    def chunk(self, index: int) -> slice:
        """The words of chunk `index`."""
        if self.everybody_adds:
            return slice(0, self.words)
        return slice(index * self._chunk_words, min(self.words, (index + 1) * self._chunk_words))

    def length(self, index: int) -> int:
        """How many words chunk `index` has."""
        part = self.chunk(index)
        return int(part.stop) - int(part.start)

    @cached_property
    def reducers(self) -> tuple[int, ...]:
        """Who adds up which chunk in view 0, by member number; empty where everybody does."""
        return () if self.everybody_adds else tuple(index % self.members for index in range(self.chunks))
