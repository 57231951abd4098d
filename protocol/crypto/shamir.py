"""Secret sharing: any `threshold` shares give the secret, fewer reveal nothing (Shamir 1979).

A secret is the value at 0 of a polynomial of degree threshold - 1 over GF(2^255 - 19); member i's share is
its value at i + 1. The field holds all bits that an X25519 key uses of its 32 secret bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from protocol.crypto.sealing import derive
from protocol.errors import LocalProtocolError, RemoteProtocolError

PRIME = 2**255 - 19
BYTES = 32


def split(secret: int, threshold: int, members: int, rand: bytes) -> tuple[int, ...]:
    """The `members` shares of a secret below PRIME, in order of the members' numbers.

    `rand`: 32 secret bytes, used for this secret alone. Raises LocalProtocolError if an argument is out of
    range.
    """
    if not (1 <= threshold <= members and 0 <= secret < PRIME):
        raise LocalProtocolError(f"{threshold} of {members} shares of a secret below 2^255 - 19")
    polynomial = (secret, *(_coefficient(rand, degree) for degree in range(1, threshold)))
    return tuple(_value(polynomial, number + 1) for number in range(members))


def _coefficient(rand: bytes, degree: int) -> int:
    """Uniform below PRIME up to 2^-256: 64 bytes, reduced."""
    halves = (derive(rand, b"shamir", degree.to_bytes(4, "big"), half) for half in (b"\0", b"\1"))
    return int.from_bytes(b"".join(halves), "little") % PRIME


def _value(polynomial: Sequence[int], point: int) -> int:
    """The polynomial's value at `point`, by Horner's rule."""
    value = 0
    for coefficient in reversed(polynomial):
        value = value * point + coefficient  # grows by few bits: a point is small
    return value % PRIME


def weights(numbers: Sequence[int]) -> tuple[int, ...]:
    """The Lagrange coefficients at 0: the sum of these members' shares times them is the secret.

    Raises LocalProtocolError if a member occurs twice, or there is none.
    """
    if not numbers or len(set(numbers)) != len(numbers) or min(numbers) < 0:
        raise LocalProtocolError(f"no weights for members {numbers}")
    return tuple(_weight(number + 1, [other + 1 for other in numbers]) for number in numbers)


def _weight(point: int, points: Sequence[int]) -> int:
    """The product of x / (x - point) over the other points x."""
    others = [other for other in points if other != point]
    below = math.prod([other - point for other in others])
    return math.prod(others) * pow(below, -1, PRIME) % PRIME


def combine(shares: Sequence[int], weights: Sequence[int]) -> int:
    """The secret, from shares in the order of the members that the weights were made for.

    Shares of different secrets give another number: compare the result with a commitment.
    """
    if len(shares) != len(weights):
        raise LocalProtocolError(f"{len(shares)} shares for {len(weights)} weights")
    return sum(share * weight for share, weight in zip(shares, weights, strict=True)) % PRIME


def to_bytes(value: int) -> bytes:
    """A secret or a share as 32 bytes, little-endian."""
    return value.to_bytes(BYTES, "little")


def from_bytes(data: bytes) -> int:
    """A secret or a share from 32 bytes; RemoteProtocolError unless they are a number below PRIME."""
    value = int.from_bytes(data, "little")
    if len(data) != BYTES or value >= PRIME:
        raise RemoteProtocolError(f"{len(data)} bytes that are no number below 2^255 - 19")
    return value
