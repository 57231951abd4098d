"""Sealed shares: X25519 between the two READYs' ephemeral keys, HKDF-SHA256, ChaCha20-Poly1305.

The key is bound to one session (salt = sid) and one direction (info = from || to) and seals one share only,
so the piece's index is a safe nonce (RFC 8439). The header is associated data.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from protocol.errors import RemoteProtocolError

TAG_BYTES = 16
_KEY_BYTES = 32
_FIELD = 2**255 - 19
_SIGN_BIT = 2**255
_SMALL_ORDER = frozenset(
    (
        *(0, 1, _FIELD - 1),
        0x00B8495F16056286FDB1329CEB8D09DA6AC49FF1FAE35616AEB8413B7C7AEBE0,
        0x57119FD0DD4E22D8868E1C58C45C44045BEF839C55B1D0B1248C50A3BC959C5F,
    )
)
"""The u of the points whose order divides 8, on the curve and its twist: an exchange with them gives 0."""


def derive(root: bytes, label: bytes, *context: bytes) -> bytes:
    """32 bytes from 32 secret bytes, unique for each (label, context): HKDF-Expand (RFC 5869, 2.3)."""
    info = b"murmuration/1/" + label + b"\0" + b"".join(context)
    return HKDFExpand(algorithm=SHA256(), length=32, info=info).derive(root)


def check_public(ephemeral: bytes) -> None:
    """Raises RemoteProtocolError for an X25519 key of small order: no secret with it (RFC 7748, 6.1)."""
    u = int.from_bytes(ephemeral, "little") % _SIGN_BIT % _FIELD
    if len(ephemeral) != _KEY_BYTES or u in _SMALL_ORDER:
        raise _unusable(ephemeral)


def _unusable(ephemeral: bytes) -> RemoteProtocolError:
    return RemoteProtocolError(f"unusable ephemeral key {ephemeral.hex()[:8]}")


class Ephemeral:
    """An X25519 key (RFC 7748) that lives for one READY."""

    def __init__(self, seed: bytes) -> None:
        self._private = X25519PrivateKey.from_private_bytes(seed)
        self.public = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self._agreed: dict[bytes, bytes] = {}

    def channel(self, other: bytes, sid: bytes, sender: bytes, recipient: bytes) -> Channel:
        """The channel from node key `sender` to node key `recipient`; `other`: the peer's ephemeral key."""
        info = b"murmuration/1/share" + sender + recipient
        return Channel(HKDF(algorithm=SHA256(), length=32, salt=sid, info=info).derive(self.secret(other)))

    def secret(self, other: bytes) -> bytes:
        """The secret shared with the peer's key `other`; RemoteProtocolError if that key has small order.

        Both directions use it, so it is cached.
        """
        if other not in self._agreed:
            try:
                self._agreed[other] = self._private.exchange(X25519PublicKey.from_public_bytes(other))
            except ValueError as error:
                raise _unusable(other) from error
        return self._agreed[other]


class Channel:
    """The sealed channel in one direction between two members of one session."""

    def __init__(self, key: bytes) -> None:
        self._cipher = ChaCha20Poly1305(key)

    def seal(self, index: int, header: bytes, plain: bytes) -> bytes:
        """The ciphertext of piece `index`, 16 bytes longer than `plain`."""
        return self._cipher.encrypt(index.to_bytes(12, "little"), plain, header)

    def open(self, index: int, header: bytes, sealed: bytes) -> bytes:
        """The plaintext of piece `index`; RemoteProtocolError if anything was changed."""
        try:
            return self._cipher.decrypt(index.to_bytes(12, "little"), sealed, header)
        except InvalidTag as error:
            raise RemoteProtocolError(
                "a sealed share does not open: changed, or not from its sender"
            ) from error
