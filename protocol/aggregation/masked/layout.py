"""How a masked vector is cut into chunks, and which member is the reducer of each.

A chunk is at most one piece (2^18 words) and one frame. In view 0, member c mod n adds up chunk c; so there
are at least n chunks, and a multiple of n. If a vector has less than ALL_TO_ALL_BYTES, there is one chunk and
every member adds it up: this costs more bytes and saves two steps of messages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from protocol.vectors.pieces import PIECE_WORDS
from protocol.vectors.ring import WIDE, Ring

ALL_TO_ALL_BYTES = 64 * 1024


@dataclass(frozen=True)
class Layout:
    """The layout of a (d,) vector and its count slots, for a group of `members`."""

    dimension: int
    members: int
    all_to_all_bytes: int = ALL_TO_ALL_BYTES
    """For vectors below this size every member adds up: a parameter, equal for all members."""
    ring: Ring = WIDE

    @cached_property
    def words(self) -> int:
        """d and the count slots: there each member adds a 1, so that a wrong mask shows in the sum."""
        return self.dimension + self.ring.counts

    @property
    def vector_bytes(self) -> int:
        """The length in bytes of a masked vector."""
        return self.ring.word_bytes * self.words

    @cached_property
    def everybody_adds(self) -> bool:
        """Whether there is one chunk, which every member sends to every other."""
        return self.ring.word_bytes * self.dimension < self.all_to_all_bytes

    @cached_property
    def sent_bytes(self) -> float:
        """What a member sends: its chunks to those who add them up, and the totals that it adds up to all."""
        whole = self.vector_bytes * (self.members - 1)
        return whole if self.everybody_adds else 2 * whole / self.members

    @cached_property
    def kept_bytes(self) -> int:
        """What a member keeps of a sum: its vector, others' chunks that it adds up, totals with carries."""
        others = self.members - 1 if self.everybody_adds else (self.members - 1) / self.members
        return math.ceil(self.words * (self.ring.word_bytes * (2 + others) + 1))

    @cached_property
    def _chunk_words(self) -> int:
        """The length of a chunk, a multiple of the cipher's block."""
        rounds = -(-self.words // (PIECE_WORDS * self.members))
        share = -(-self.words // (rounds * self.members))
        block = self.ring.block_words
        return min(PIECE_WORDS, -(-share // block) * block)

    @cached_property
    def chunks(self) -> int:
        """The number of chunks; all but the last have the same length."""
        return 1 if self.everybody_adds else -(-self.words // self._chunk_words)

    def chunk(self, index: int) -> slice:
        """The words of chunk `index`."""
        if self.everybody_adds:
            return slice(0, self.words)
        return slice(index * self._chunk_words, min(self.words, (index + 1) * self._chunk_words))

    def length(self, index: int) -> int:
        """The number of words of chunk `index`."""
        part = self.chunk(index)
        return int(part.stop) - int(part.start)

    def chunk_bytes(self, index: int) -> int:
        """The length in bytes of chunk `index`."""
        return self.ring.word_bytes * self.length(index)

    @cached_property
    def reducers(self) -> tuple[int, ...]:
        """Each chunk's reducer in view 0, by member number; empty if every member adds up."""
        return () if self.everybody_adds else tuple(index % self.members for index in range(self.chunks))
