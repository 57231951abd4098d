"""CPace over X25519 and SHA-512: two ends that know the same short password get the same secret key.

Each run lets an end test one password, so guesses need a run each. Whoever hears all messages, or passes
them on, learns nothing by which passwords could be tried at leisure. Source: draft-irtf-cfrg-cpace, whose
names the arguments have in brackets. Exponents of X25519 are computed in constant time. The map from the
password to its point is not, but it takes a hash with fresh nonces, and one hash is seen once.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from protocol.errors import RemoteProtocolError

SCALAR_BYTES = POINT_BYTES = 32
TAG_BYTES = 64
_DOMAIN = b"CPace255"
_HASH_BLOCK_BYTES = 128
_FIELD = 2**255 - 19
_CURVE = 486662
"""The A of Curve25519: v^2 = u^3 + A u^2 + u."""


def prefixed(*parts: bytes) -> bytes:
    """The parts, each after its length in LEB128, so that no two lists give the same bytes (lv_cat)."""
    return b"".join(_length(len(part)) + part for part in parts)


def _length(length: int) -> bytes:
    low, high = length & 127, length >> 7
    return bytes([low]) if not high else bytes([low | 128]) + _length(high)


def generator(password: bytes, channel: bytes, sid: bytes) -> bytes:
    """The point (u, 32 bytes) from which both ends begin. `channel` (CI) and `sid` are known to both."""
    taken = len(prefixed(_DOMAIN)) + len(prefixed(password)) + 1
    pad = bytes(max(0, _HASH_BLOCK_BYTES - taken))
    digest = hashlib.sha512(prefixed(_DOMAIN, password, pad, channel, sid)).digest()
    return _to_curve(int.from_bytes(digest[:POINT_BYTES], "little") % 2**255).to_bytes(POINT_BYTES, "little")


def _to_curve(r: int) -> int:
    """The u of Elligator 2 with the non-square 2 (RFC 9380, 6.7.1)."""
    u = -_CURVE * pow(1 + 2 * r * r, _FIELD - 2, _FIELD) % _FIELD
    square = pow(u * (u * (u + _CURVE) + 1) % _FIELD, (_FIELD - 1) // 2, _FIELD)
    return (u, (-u - _CURVE) % _FIELD)[square == _FIELD - 1]


def times(scalar: bytes, point: bytes) -> bytes:
    """X25519: the point times the secret scalar. Raises RemoteProtocolError for a point of small order."""
    try:
        return X25519PrivateKey.from_private_bytes(scalar).exchange(X25519PublicKey.from_public_bytes(point))
    except ValueError as error:
        raise RemoteProtocolError(f"a share of small order: {point.hex()[:8]}") from error


def session_key(sid: bytes, secret: bytes, first: tuple[bytes, bytes], second: tuple[bytes, bytes]) -> bytes:
    """The 64-byte key (ISK). `secret` (K): the common point; then each end's share and its label (Y, AD)."""
    return hashlib.sha512(
        prefixed(_DOMAIN + b"_ISK", sid, secret) + prefixed(*first) + prefixed(*second)
    ).digest()


def tag(key: bytes, sid: bytes, share: bytes, label: bytes) -> bytes:
    """An end's proof that it has the session's key: of its own share and label (key confirmation)."""
    return hmac.digest(hashlib.sha512(b"CPaceMac" + sid + key).digest(), prefixed(share, label), "sha512")


@dataclass(frozen=True)
class Agreed:
    """What an end has after a run: the key (64 bytes), its own tag, and the one that the other must show."""

    key: bytes
    own: bytes
    others: bytes

    def is_proved(self, shown: bytes) -> bool:
        """Whether the other end shows that it has the same key; compared in constant time."""
        return hmac.compare_digest(shown, self.others)


class Run:
    """One end of a run. `share` goes to the other end."""

    def __init__(
        self, label: bytes, labels: tuple[bytes, bytes], scalar: bytes, point: bytes, sid: bytes
    ) -> None:
        """`label`: this end's of the two, which are in the same order at both; `point`: the `generator`."""
        self._label, self._labels, self._scalar, self._sid = label, labels, scalar, sid
        self.share = times(scalar, point)

    def finish(self, theirs: bytes) -> Agreed:
        """What follows from the other end's share. Raises RemoteProtocolError for one of small order."""
        (other,) = {*self._labels} - {self._label}
        shares = {self._label: self.share, other: theirs}
        first, second = ((shares[label], label) for label in self._labels)
        key = session_key(self._sid, times(self._scalar, theirs), first, second)
        own, others = (tag(key, self._sid, shares[label], label) for label in (self._label, other))
        return Agreed(key, own, others)
