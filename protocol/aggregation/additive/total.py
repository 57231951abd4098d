"""The sum of all partial sums, added piece by piece as they arrive."""

from __future__ import annotations

from protocol.aggregation.additive.shares import Shares
from protocol.errors import RemoteProtocolError
from protocol.vectors.pieces import Vector, piece_bytes, piece_count
from protocol.wire.messages import Key


class Total:
    """Adds each (member, piece) once. If order matters (floats), it adds the pieces in key order.

    Floating-point addition is not associative: out-of-order pieces wait, so that all members, and nodes that
    recompute the sum from a certificate, get the same bits.
    """

    def __init__(self, shares: Shares, dimension: int, members: tuple[Key, ...]) -> None:
        """`members` in key order; the (d,) vector is allocated with the first piece."""
        self._shares = shares
        self._dimension = dimension
        self._members = members
        self._got: dict[Key, set[int]] = {key: set() for key in members}
        self._held: dict[tuple[Key, int], bytes | memoryview] = {}
        self._added = [0] * piece_count(dimension)
        self._vector: Vector | None = None

    def add(self, member: Key, index: int, payload: bytes | memoryview) -> None:
        """Add a piece. Raises RemoteProtocolError if it came before or has the wrong length."""
        if index in self._got[member] or len(payload) != piece_bytes(self._dimension, index):
            raise RemoteProtocolError(f"piece {index} of a sum is here already or has {len(payload)} bytes")
        if self._vector is None:
            self._vector = self._shares.empty(self._dimension)
        if self._shares.ordered:
            self._shares.check(payload)
            self._held[member, index] = payload
            for key in self._members[self._added[index] :]:
                ready = self._held.pop((key, index), None)
                if ready is None:
                    break
                self._shares.add(self._vector, index, ready)
                self._added[index] += 1
        else:
            self._shares.add(self._vector, index, payload)
        self._got[member].add(index)

    def missing(self) -> tuple[Key, ...]:
        """The members whose partial sum is not whole yet."""
        count = len(self._added)
        return tuple(key for key in self._members if len(self._got[key]) < count)

    def result(self) -> Vector:
        """What the total decodes to, (d,), once no member is missing. Uses the total up."""
        vector = self._shares.empty(self._dimension) if self._vector is None else self._vector
        self._vector = None
        return self._shares.decode(vector)
