"""Node keys (Ed25519) and labelled signatures, so that one kind of record never passes for another."""

from __future__ import annotations

from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from protocol.errors import RemoteProtocolError

KEY_BYTES = 32
SIGNATURE_BYTES = 64
_DOMAIN = b"murmuration/1/"
_FIELD = 2**255 - 19
_SIGN_BIT = 2**255
_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset((0, 1, _FIELD - 1, _ORDER_8, _FIELD - _ORDER_8))
"""The y of the eight points whose order divides 8. For such a key, anybody can construct valid signatures
(Chalkias, Garillot and Nikolaenko 2020, "Taming the many EdDSAs"); the library does not refuse them."""


class NodeKey:
    """A node's long-lived Ed25519 key (RFC 8032). `public` is its 32-byte name in the swarm."""

    def __init__(self, seed: bytes) -> None:
        """`seed`: the 32 secret bytes. Raises ValueError on another length."""
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    def sign(self, label: bytes, body: bytes) -> bytes:
        """64-byte signature of `body` under `label`."""
        return self._private.sign(_DOMAIN + label + b"\0" + body)

    def __repr__(self) -> str:
        return f"NodeKey(public={self.public.hex()[:8]}...)"


def verify(public: bytes, label: bytes, body: bytes, signature: bytes) -> None:
    """Raises RemoteProtocolError unless `signature` is `public`'s signature of `body` under `label`."""
    try:
        _public_key(public).verify(signature, _DOMAIN + label + b"\0" + body)
    except (InvalidSignature, ValueError) as error:
        raise RemoteProtocolError(
            f"bad {label.decode()} signature in the name of {public.hex()[:8]}"
        ) from error


@lru_cache(maxsize=256)
def _public_key(public: bytes) -> Ed25519PublicKey:
    """The key, cached as a member signs a dozen messages a round. ValueError for a key of small order."""
    if int.from_bytes(public, "little") % _SIGN_BIT % _FIELD in _SMALL_ORDER:
        raise ValueError("a key of small order: anybody could sign for it")
    return Ed25519PublicKey.from_public_bytes(public)
