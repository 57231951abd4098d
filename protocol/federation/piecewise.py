"""Vectors between a server and its clients: assembled from pieces, or sent as pieces."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from protocol.errors import RemoteProtocolError
from protocol.federation import tags
from protocol.vectors.pieces import Floats, piece, piece_bytes, piece_count, raw
from protocol.wire.bulk import Bulk
from protocol.wire.messages import ModelPiece, Order, UploadPiece


class Filling:
    """A vector, (d,) float32, that arrives in pieces, in any order; allocated with the first one."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._missing = set(range(piece_count(dimension)))
        self._vector: Floats | None = None

    def put(self, part: ModelPiece | UploadPiece) -> Floats | None:
        """Add a piece; returns the vector if it was the last. RemoteProtocolError changes nothing."""
        if part.index not in self._missing:
            raise RemoteProtocolError(f"piece {part.index} of a vector, which was here or does not exist")
        if len(part.payload) != piece_bytes(self._dimension, part.index):
            raise RemoteProtocolError(f"a piece of {len(part.payload)} bytes, which is not its size")
        values = np.frombuffer(part.payload, "<f4")
        if not np.isfinite(values).all():
            raise RemoteProtocolError("a piece that is not finite")
        if self._vector is None:
            self._vector = np.empty(self._dimension, "<f4")
        self._vector[piece(self._dimension, part.index)] = values
        self._missing.remove(part.index)
        return None if self._missing else self._vector


@dataclass(frozen=True, slots=True, eq=False)
class Orders(Bulk[Order | ModelPiece]):
    """An order, followed by the pieces of its model (d,)."""

    order: Order
    vector: Floats = field(repr=False)
    run: bytes = field(repr=False)

    def __len__(self) -> int:
        """The number of messages."""
        return 1 + piece_count(len(self.vector))

    def at(self, index: int) -> Order | ModelPiece:
        """Message `index`."""
        if index == 0:
            return tags.tag(self.order, self.run)
        part = raw(self.vector, piece(len(self.vector), index - 1))
        return tags.tag(ModelPiece(self.order.round, index - 1, payload=part), self.run)


@dataclass(frozen=True, slots=True, eq=False)
class Upload(Bulk[UploadPiece]):
    """The pieces of a client's upload (d,); `first` names the client and the round."""

    first: UploadPiece
    vector: Floats = field(repr=False)
    run: bytes = field(repr=False)

    def __len__(self) -> int:
        """The number of messages."""
        return piece_count(len(self.vector))

    def at(self, index: int) -> UploadPiece:
        """Message `index`."""
        part = raw(self.vector, piece(len(self.vector), index))
        return tags.tag(replace(self.first, index=index, payload=part), self.run)


def frozen(vector: Floats) -> Floats:
    """A read-only copy: the caller may change its vector while the copy waits for the wire."""
    copy = np.array(vector, "<f4")
    copy.flags.writeable = False
    return copy
