"""The session of a joiner and an inviter: CPace by a password, then messages that only the two can read.

The joiner has the first share. Each end proves the common key before it trusts the other; keys of both
directions follow from it (HKDF-SHA256), and messages are sealed by ChaCha20-Poly1305 under a counter, so none
can be changed, repeated, left out or put in another place.
"""

from __future__ import annotations

import hashlib
from enum import Enum

from protocol.crypto import cpace
from protocol.crypto.sealing import Channel, derive
from protocol.invitation.messages import OPEN, SECRET, Invitation, Proof, Sealed, Secret

NONCE_BYTES = 16
RANDOM_BYTES = NONCE_BYTES + cpace.SCALAR_BYTES
"""What an end draws for a session: a nonce, then a scalar."""

NO_SECRET = bytes(32)
"""In place of the secret of an earlier session: there is none."""
ACCEPT_LABEL = b"invitation-accept"


class End(Enum):
    """The two ends, by the label under which each proves itself."""

    JOINER = b"joiner"
    INVITER = b"inviter"

    @property
    def other(self) -> End:
        """The other end."""
        return End.INVITER if self is End.JOINER else End.JOINER


class Exchange:
    """One end of a run of CPace: its share, until the other's is known."""

    def __init__(self, end: End, scalar: bytes, password: bytes, room: str, sid: bytes) -> None:
        """`sid`: the joiner's nonce, then the inviter's."""
        channel = cpace.prefixed(b"murmuration/1/invitation", room.encode())
        labels, point = (End.JOINER.value, End.INVITER.value), cpace.generator(password, channel, sid)
        self._end, self._run = end, cpace.Run(end.value, labels, scalar, point, sid)
        self.share = self._run.share

    def finish(self, theirs: bytes) -> Session:
        """The session with the end whose share this is; unproved. Raises RemoteProtocolError."""
        return Session(self._end, self._run.finish(theirs))


class Session:
    """The common key at one end, and its count of messages each way."""

    def __init__(self, end: End, agreed: cpace.Agreed) -> None:
        key = agreed.key
        self._agreed = agreed
        self._out, self._in = (Channel(derive(key, b"invitation", e.value)) for e in (end, end.other))
        self._sent = self._received = 0
        self.resumption = derive(key, b"invitation-resumption")
        """The password of later sessions of the two: 32 bytes."""
        self.binding = derive(key, b"invitation-accept")
        """What the joiner's signature covers, so that it is worthless in any other session: 32 bytes."""

    @property
    def proof(self) -> bytes:
        """The message by which this end proves the key."""
        return OPEN.write(Proof(self._agreed.own))

    def is_proved(self, shown: Proof) -> bool:
        """Whether the other end has the same key, so the same password."""
        return self._agreed.is_proved(shown.tag)

    def seal(self, message: Secret) -> bytes:
        """The next message of this end."""
        box = self._out.seal(self._sent, b"", SECRET.write(message))
        self._sent += 1
        return OPEN.write(Sealed(box))

    def open(self, sealed: Sealed) -> Secret:
        """The next message of the other end. Raises RemoteProtocolError."""
        opened = self._in.open(self._received, b"", sealed.box)
        self._received += 1
        return SECRET.read(opened)


def password_of(words: str, resumption: bytes) -> bytes:
    """The password of CPace: the words, and the secret of the session in which they were accepted, if any."""
    return cpace.prefixed(words.encode(), *(() if resumption == NO_SECRET else (resumption,)))


def accepted_bytes(session: Session, invitation: Invitation) -> bytes:
    """What a joiner signs to accept: this session, and all of the invitation."""
    return session.binding + hashlib.sha256(SECRET.write(invitation)).digest()
