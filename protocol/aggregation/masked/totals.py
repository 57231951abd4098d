"""The totals over one set of members: chunks of words and carries, their digests, and the check votes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from protocol.aggregation.masked import carries, linear_check
from protocol.aggregation.masked.layout import Layout
from protocol.aggregation.masked.linear_check import Coefficients
from protocol.aggregation.masked.unmasking import totals_digest
from protocol.crypto.sealing import derive
from protocol.errors import RemoteProtocolError
from protocol.vectors.pieces import Words, raw
from protocol.vectors.shelf import Payload, Place, Shelf
from protocol.wire.bulk import Held
from protocol.wire.ids import Key, Sid
from protocol.wire.limits import CHECKS
from protocol.wire.masked_messages import CheckVote, TotalPiece


class Totals:
    """The totals of the members in `included`. Payloads and digests are by chunk.

    `wanted`: the digests that the chunks must have, if they are known beforehand.
    """

    def __init__(
        self, sid: Sid, included: int, layout: Layout, wanted: Sequence[bytes] | None, shelf: Shelf
    ) -> None:
        self.included = included
        self.wanted = wanted
        self._sid = sid
        self._layout = layout
        self._shelf = shelf
        self._places: list[Place | None] = [None] * layout.chunks
        self._digests: list[bytes | None] = [None] * layout.chunks
        self._coefficients: Coefficients | None = None
        self.checks: dict[Key, CheckVote] = {}

    def wanting(self, included: int, wanted: Sequence[bytes]) -> Totals:
        """New totals with these digests; they keep the chunks already here, and have no check votes."""
        totals = Totals(self._sid, included, self._layout, wanted, self._shelf)
        for index, digest in enumerate(wanted):
            if self._digests[index] == digest:
                totals._places[index] = self._places[index]
                totals._digests[index] = digest
        return totals

    @property
    def missing(self) -> tuple[int, ...]:
        """The indices of the chunks that are missing."""
        return tuple(index for index, digest in enumerate(self._digests) if digest is None)

    def digest_of(self, index: int) -> bytes | None:
        """The digest of a chunk; None if it is missing."""
        return self._digests[index]

    @property
    def digests(self) -> tuple[bytes, ...]:
        """The digests of the chunks that are here, in order."""
        return tuple(digest for digest in self._digests if digest is not None)

    @property
    def digest(self) -> bytes:
        """The digest that votes name; valid once no chunk is missing."""
        return totals_digest(self._sid, self.included, self.digests)

    def forget_other_checks(self) -> None:
        """Drop check votes on other totals, so that their senders can vote on these."""
        digest = totals_digest(self._sid, self.included, self.wanted or self.digests)
        self.checks = {key: vote for key, vote in self.checks.items() if vote.totals == digest}

    def take(self, index: int, payload: bytes | memoryview, digest: bytes) -> None:
        """Store a chunk and its bulk digest; RemoteProtocolError unless length, carries, digest are right."""
        if len(payload) < self._layout.chunk_bytes(index):
            raise RemoteProtocolError(f"chunk {index} of a total has {len(payload)} bytes")
        if self.wanted is not None and self.wanted[index] != digest:
            raise RemoteProtocolError(f"chunk {index} of a total is not the one that was voted for")
        carries.unpack(self._packed(index, payload), self._layout.length(index), self._layout.members)
        self._places[index] = self._shelf.put(payload)
        self._digests[index] = digest

    def place(self, index: int) -> Place:
        """Where the payload of a chunk is; RemoteProtocolError if it is missing."""
        place = self._places[index]
        if place is None:
            raise RemoteProtocolError(f"chunk {index} of a total is missing")
        return place

    def chunks(self) -> Iterator[Words]:
        """The (w,) words of each chunk in order, read-only, once none is missing."""
        return (self._words(index, self.place(index)()) for index in range(self._layout.chunks))

    def _words(self, index: int, payload: Payload) -> Words:
        return np.frombuffer(payload, dtype=self._layout.ring.word, count=self._layout.length(index))

    def _packed(self, index: int, payload: Payload) -> memoryview:
        return memoryview(payload)[self._layout.chunk_bytes(index) :]

    def pieces(self) -> Held[TotalPiece]:
        """All chunks, as a node keeps and serves them, once none is missing."""
        chunks = range(self._layout.chunks)
        return Held(tuple(partial(_piece, self._sid, index, self.place(index)) for index in chunks))

    @property
    def coefficients(self) -> Coefficients:
        """The random vectors that all chunks' digests give, once none is missing (Fiat and Shamir 1986)."""
        if self._coefficients is None:
            self._coefficients = Coefficients(derive(self.digest, b"check"), self._layout)
        return self._coefficients

    def products(self, coefficients: Coefficients, index: int) -> linear_check.Products:
        """The products of a chunk of the total; RemoteProtocolError if it is missing."""
        payload, length = self.place(index)(), self._layout.length(index)
        carried = carries.read(self._packed(index, payload), length, self._layout.members)
        return coefficients.total_products(index, self._words(index, payload), carried)


def _piece(sid: Sid, index: int, place: Place) -> TotalPiece:
    return TotalPiece(sid, index, place())


def product_bytes(layout: Layout) -> int:
    """The length in bytes of the products of a check."""
    return 4 * CHECKS * layout.chunks


def payload_bytes(layout: Layout, index: int) -> int:
    """The length in bytes of chunk `index` of a total, if no carry is rare."""
    return layout.chunk_bytes(index) + carries.usual_bytes(layout.length(index), layout.members)


def added_up(parts: Sequence[memoryview | bytes], layout: Layout, index: int) -> bytes:
    """The payload of the sum of these chunks `index`: words, then packed carries."""
    words, carried = linear_check.add_up(parts, layout.length(index), layout.ring)
    return b"".join((raw(words, slice(None)), carries.pack(carried, layout.members)))
