"""The keys and the masks of one member in one masked session (Bonawitz et al. 2017, section 4).

Member i draws two secrets for one session: b, of its own mask, and s, an X25519 key. Its vector goes out as

    y_i = encode(x_i) + G(b_i) + sum over j > i of G(K_ij) - sum over j < i of G(K_ij)   mod 2^32

where K_ij is the seed that i and j agree on and G is `protocol.crypto.prg.Stream`. The pair masks cancel in
the sum of all. The group opens s for a member that is missing, and b for a member that is in the sum: never
both. No secret is used again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import Enum

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from protocol.crypto import prg
from protocol.crypto.sealing import derive
from protocol.crypto.shamir import to_bytes
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.wire.ids import Key, Sid

_DOMAIN = b"murmuration/1/"
_SECRET_BITS = 254


class Kind(Enum):
    """The secret that a share belongs to, of a member's two."""

    SELF = b"self"
    PAIR = b"pair"


def secret_from(seed: bytes) -> int:
    """A secret below 2^254, hence in Shamir's field, from 32 secret bytes.

    The two bits that it drops are those that X25519 sets itself (RFC 7748, section 5).
    """
    if len(seed) != prg.SEED_BYTES:
        raise LocalProtocolError(f"a secret from {len(seed)} bytes")
    return int.from_bytes(seed, "little") % (1 << _SECRET_BITS)


def public_key(secret: int) -> bytes:
    """The X25519 public key of a secret, to compare a reconstructed mask key with the announced one."""
    return private_key(secret).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def commitment(secret: int, sid: Sid, sender: Key) -> bytes:
    """Binds `sender` to the secret of its own mask, and hides it: the secret has 254 random bits."""
    return hashlib.sha256(_DOMAIN + b"commitment" + sid + sender + to_bytes(secret)).digest()


def self_seed(secret: int, sid: Sid, sender: Key) -> bytes:
    """The 32-byte seed of `sender`'s own mask."""
    return derive(to_bytes(secret), b"self-mask", sid, sender)


def pair_seed(private: X25519PrivateKey, other_public: bytes, sid: Sid, one: Key, other: Key) -> bytes:
    """The 32-byte seed that both members compute, from one's private key and the other's public key.

    X25519, HKDF-SHA256 with the sid as salt; the order of the node keys `one` and `other` does not matter.
    RemoteProtocolError if `other_public` is of small order.
    """
    try:
        agreed = private.exchange(X25519PublicKey.from_public_bytes(other_public))
    except ValueError as error:
        raise RemoteProtocolError(f"unusable mask key {other_public.hex()[:8]}") from error
    info = _DOMAIN + b"pair-mask" + min(one, other) + max(one, other)
    return HKDF(algorithm=SHA256(), length=prg.SEED_BYTES, salt=sid, info=info).derive(agreed)


def private_key(secret: int) -> X25519PrivateKey:
    """The X25519 key of a secret; to make it costs as much as to agree on a seed."""
    return X25519PrivateKey.from_private_bytes(to_bytes(secret))


def share_digest(share: bytes, sid: Sid, dealer: Key, kind: Kind, number: int) -> bytes:
    """The hash in a JOIN of member `number`'s share. Unsalted: a share has over 250 random bits."""
    place = kind.value + number.to_bytes(4, "big")
    return hashlib.sha256(_DOMAIN + b"mask-share" + sid + dealer + place + share).digest()


def shares_digest(hashes: Iterable[bytes]) -> bytes:
    """The digest of a list of 32-byte share digests, or of the shares of a release."""
    return hashlib.sha256(_DOMAIN + b"mask-shares" + b"".join(hashes)).digest()
