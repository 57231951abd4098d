"""The share kinds of the additive protocol: what a share is, how nodes send it, how shares add up.

All kinds draw one fresh 32-byte seed for each recipient and keep the residual: share_ii = x_i minus the
sum of the others (protocol, Part I). So a node's accumulator starts as its residual; the node adds the shares
that arrive, and the accumulator then *is* its partial sum p_j: one vector, never more.

- `seed`: ring words expanded from the seed by AES-256-CTR; the node sends only the 32-byte seed.
- `ring`: the same words, sent in full.
- `float`: float32 uniform in [-M, M). Obfuscation for fidelity, not a privacy guarantee; the error is
  about M 1e-7 n^1.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from protocol.aggregation.encoding import Encoding, encoding_of
from protocol.crypto import prg
from protocol.errors import NotFiniteError, RemoteProtocolError
from protocol.vectors.pieces import Floats, Vector, piece, piece_bytes, piece_count, pieces


class Shares(Protocol):
    """Arithmetic and wire form of one share kind, for groups of a fixed size. All vectors are (d,)."""

    @property
    def ordered(self) -> bool:
        """Whether the order of additions changes the result, so that sums must be added in key order."""

    def encode(self, vector: Vector, seed: bytes) -> tuple[Vector, int]:
        """(accumulator holding the encoded vector, coordinates clipped); NotFiniteError on NaN, infinity."""

    def subtract(self, accumulator: Vector, seed: bytes) -> None:
        """Subtract the share of `seed` from the accumulator; after all of them, it is the residual."""

    def payload_count(self, dimension: int) -> int:
        """The number of pieces of a share."""

    def payload(self, seed: bytes, dimension: int, index: int) -> bytes:
        """Piece `index` of the share of `seed`, before sealing."""

    def absorb(self, accumulator: Vector, index: int, payload: bytes) -> None:
        """Add a received, opened piece. Raises RemoteProtocolError if its length is wrong."""

    def empty(self, dimension: int) -> Vector:
        """A total of no summands: zeros."""

    def check(self, payload: bytes | memoryview) -> None:
        """Raises RemoteProtocolError if a piece of a partial sum holds values that no honest member sends."""

    def add(self, total: Vector, index: int, payload: bytes | memoryview) -> None:
        """Add piece `index` of a partial sum to the total; its length was checked."""

    def decode(self, total: Vector) -> Vector:
        """What the total of all partial sums stands for; may overwrite `total`."""


def _checked(payload: bytes, dimension: int, index: int) -> bytes:
    if len(payload) != piece_bytes(dimension, index):
        raise RemoteProtocolError(f"piece {index} of a share has {len(payload)} bytes")
    return payload


def _within(payload: bytes | memoryview, limit: float) -> None:
    """Raises RemoteProtocolError unless all floats are numbers within +-limit."""
    if not (np.abs(np.frombuffer(payload, dtype="<f4")) <= limit).all():
        raise RemoteProtocolError(f"a piece of floats with a NaN or a value beyond +-{limit}")


@dataclass(frozen=True, slots=True)
class RingShares:
    """Uniform words of Z_2^32, sent in full: sums are exact, n-1 colluders learn nothing but the sum."""

    encoding: Encoding
    ordered: bool = False

    def encode(self, vector: Vector, seed: bytes) -> tuple[Vector, int]:
        """Encode the vector as words."""
        return self.encoding.encode(vector, seed)

    def subtract(self, accumulator: Vector, seed: bytes) -> None:
        """Subtract the words of `seed` modulo 2^32."""
        for _, part in pieces(len(accumulator)):
            target = accumulator[part]
            target -= prg.words(seed, part.start, len(target))

    def payload_count(self, dimension: int) -> int:
        """One piece for each piece of the vector."""
        return piece_count(dimension)

    def payload(self, seed: bytes, dimension: int, index: int) -> bytes:
        """The words of piece `index`."""
        part = piece(dimension, index)
        return prg.words(seed, part.start, part.stop - part.start).tobytes()

    def absorb(self, accumulator: Vector, index: int, payload: bytes) -> None:
        """Add a piece; RemoteProtocolError if its length is wrong."""
        self.add(accumulator, index, _checked(payload, len(accumulator), index))

    def empty(self, dimension: int) -> Vector:
        """(d,) zeros of the ring."""
        return np.zeros(dimension, dtype="<u4")

    def check(self, payload: bytes | memoryview) -> None:
        """Accept any piece: every word is in the ring."""

    def add(self, total: Vector, index: int, payload: bytes | memoryview) -> None:
        """Add the piece modulo 2^32."""
        target = total[piece(len(total), index)]
        target += np.frombuffer(payload, dtype="<u4")

    def decode(self, total: Vector) -> Vector:
        """As the encoding decodes it, in place."""
        out = total.view(self.encoding.result)
        self.encoding.decode(total, self.encoding.members, out)
        return out


@dataclass(frozen=True, slots=True)
class SeedShares(RingShares):
    """As RingShares, but nodes send only the 32-byte seed (protocol, A: claim A1 under a secure PRG)."""

    def payload_count(self, dimension: int) -> int:
        """1: the seed is the only piece."""
        return 1

    def payload(self, seed: bytes, dimension: int, index: int) -> bytes:
        """The seed."""
        return seed

    def absorb(self, accumulator: Vector, index: int, payload: bytes) -> None:
        """Expand a seed and add its words; RemoteProtocolError if its length is wrong."""
        if len(payload) != prg.SEED_BYTES:
            raise RemoteProtocolError(f"a seed has {len(payload)} bytes, not {prg.SEED_BYTES}")
        for _, part in pieces(len(accumulator)):
            target = accumulator[part]
            target += prg.words(payload, part.start, len(target))


@dataclass(frozen=True, slots=True)
class FloatShares:
    """float32 shares uniform in [-max_share_value, max_share_value): fidelity, not a privacy guarantee."""

    max_share_value: float
    bound: float
    members: int
    ordered: bool = True

    def _uniform(self, seed: bytes, part: slice) -> Floats:
        grid = prg.words(seed, part.start, part.stop - part.start) >> 8  # 24 bits: exact in float32
        unit = grid.astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)
        return unit * np.float32(self.max_share_value)

    def encode(self, vector: Vector, seed: bytes) -> tuple[Vector, int]:
        """A copy of the vector, clipped to the bound, without rounding."""
        out = np.empty(len(vector), dtype="<f4")
        clipped = 0
        for _, part in pieces(len(vector)):
            if not np.isfinite(vector[part]).all():
                raise NotFiniteError("the update holds a NaN or an infinity: nothing is offered")
            clipped += int(np.count_nonzero(np.abs(vector[part]) > self.bound))
            np.clip(vector[part], -self.bound, self.bound, out=out[part])
        return out, clipped

    def subtract(self, accumulator: Vector, seed: bytes) -> None:
        """Subtract the floats of `seed`."""
        for _, part in pieces(len(accumulator)):
            target = accumulator[part]
            target -= self._uniform(seed, part)

    def payload_count(self, dimension: int) -> int:
        """One piece for each piece of the vector."""
        return piece_count(dimension)

    def payload(self, seed: bytes, dimension: int, index: int) -> bytes:
        """The floats of piece `index`."""
        return self._uniform(seed, piece(dimension, index)).tobytes()

    def absorb(self, accumulator: Vector, index: int, payload: bytes) -> None:
        """Add a piece; RemoteProtocolError if its length or range is wrong."""
        _within(_checked(payload, len(accumulator), index), self.max_share_value)
        self.add(accumulator, index, payload)

    def empty(self, dimension: int) -> Vector:
        """(d,) zeros."""
        return np.zeros(dimension, dtype="<f4")

    def check(self, payload: bytes | memoryview) -> None:
        """Check the range: a partial sum is a residual and n-1 shares, which bounds every honest value."""
        _within(payload, 2 * self.members * (self.max_share_value + self.bound))

    def add(self, total: Vector, index: int, payload: bytes | memoryview) -> None:
        """Add the piece in float32."""
        target = total[piece(len(total), index)]
        target += np.frombuffer(payload, dtype="<f4")

    def decode(self, total: Vector) -> Vector:
        """Divide the total by n, in place."""
        total /= np.float32(self.members)
        return total


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """The parameters of a swarm's shares: `kind` is "seed", "ring" or "float".

    `clip`: the bound on coordinates; None: vectors are whole numbers, which only words of the ring carry.
    """

    kind: str
    clip: float | None
    max_share_value: float

    def for_group(self, members: int) -> Shares:
        """The shares for a group of `members`; ValueError if `kind` is unknown or cannot carry words."""
        match self.kind:
            case "seed":
                return SeedShares(encoding_of(self.clip, members))
            case "ring":
                return RingShares(encoding_of(self.clip, members))
            case "float" if self.clip is not None:
                return FloatShares(self.max_share_value, self.clip, members)
            case _:
                raise ValueError(f'shares "{self.kind}" is not one of "seed", "ring", "float"')
