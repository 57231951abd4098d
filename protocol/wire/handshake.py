"""The handshake: both ends of a link prove their keys, before any message, in four frames of fixed length.

    dialler   Knock      a nonce                                                    ──▶  acceptor
              Challenge  the acceptor's key, its nonce, its signature               ◀──
              Proof      the dialler's key, its signature                           ──▶
              Ticket     random bytes, by which other requests name this link       ◀──

Each end signs the other's nonce, so a signature from another link is worthless here. The dialler also signs
the acceptor's key, so nobody can pass its proof on under another key. Each end's signature has its own label:
neither can be made to sign for the other. Nonces are arguments: the caller draws them.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.crypto.node_key import KEY_BYTES, SIGNATURE_BYTES, NodeKey, verify
from protocol.errors import RemoteProtocolError
from protocol.wire.ids import Key

NONCE_BYTES = 32
TICKET_BYTES = 32
_KNOCK, _CHALLENGE, _PROOF, _TICKET = b"\x01", b"\x02", b"\x03", b"\x04"
_NAMES = {_KNOCK: "knock", _CHALLENGE: "challenge", _PROOF: "proof", _TICKET: "ticket"}

_AGAIN = b"\xff\xff\xff\xff"
"""No message begins like this: its first four bytes are the length of a header, which is far smaller."""
_NUMBER_BYTES = 8


@dataclass(frozen=True)
class Labels:
    """Under which labels the two ends sign: neither can be made to sign for the other, or for another use."""

    acceptor: bytes
    dialler: bytes


LINK = Labels(b"link-acceptor", b"link-dialler")
"""Of a link between two nodes."""
RELAY = Labels(b"relay-acceptor", b"relay-dialler")
"""Of a member's connection to a relay."""


@dataclass(frozen=True)
class Challenge:
    """The key that the acceptor has proved, and its nonce."""

    key: Key
    nonce: bytes


def knock(nonce: bytes) -> bytes:
    """The dialler's first frame."""
    return _KNOCK + nonce


def read_knock(frame: bytes) -> bytes:
    """The dialler's nonce; RemoteProtocolError if the frame is no knock."""
    return _fields(frame, _KNOCK, NONCE_BYTES)[0]


def challenge(key: NodeKey, theirs: bytes, mine: bytes, labels: Labels = LINK) -> bytes:
    """The acceptor's answer. `theirs`: the dialler's nonce, `mine`: its own."""
    signature = key.sign(labels.acceptor, _acceptor_body(theirs, mine, key.public))
    return _CHALLENGE + key.public + mine + signature


def read_challenge(frame: bytes, mine: bytes, labels: Labels = LINK) -> Challenge:
    """The acceptor's key and nonce; RemoteProtocolError unless it proves its key. `mine`: own nonce."""
    key, nonce, signature = _fields(frame, _CHALLENGE, KEY_BYTES, NONCE_BYTES, SIGNATURE_BYTES)
    verify(key, labels.acceptor, _acceptor_body(mine, nonce, key), signature)
    return Challenge(key, nonce)


def proof(key: NodeKey, mine: bytes, challenged: Challenge, labels: Labels = LINK) -> bytes:
    """The dialler's answer to an acceptor. `mine`: its own nonce."""
    body = _dialler_body(challenged.nonce, mine, challenged.key, key.public)
    return _PROOF + key.public + key.sign(labels.dialler, body)


def read_proof(frame: bytes, theirs: bytes, mine: bytes, acceptor: Key, labels: Labels = LINK) -> Key:
    """The key that the dialler has proved; RemoteProtocolError if the proof is wrong.

    `theirs`: the dialler's nonce, `mine`: the acceptor's, `acceptor`: its key.
    """
    key, signature = _fields(frame, _PROOF, KEY_BYTES, SIGNATURE_BYTES)
    verify(key, labels.dialler, _dialler_body(mine, theirs, acceptor, key), signature)
    return key


def ticket(secret: bytes) -> bytes:
    """The acceptor's last frame of the handshake: messages follow."""
    return _TICKET + secret


def read_ticket(frame: bytes) -> bytes:
    """The ticket's bytes; RemoteProtocolError if the frame is no ticket."""
    return _fields(frame, _TICKET, TICKET_BYTES)[0]


def again(number: int) -> bytes:
    """The frame by which an acceptor asks to resend message `number` on this link, from 0, as too early."""
    return _AGAIN + number.to_bytes(_NUMBER_BYTES, "big")


def read_again(frame: bytes) -> int | None:
    """The number of the message to resend; None if this frame is something else."""
    if len(frame) != len(_AGAIN) + _NUMBER_BYTES or not frame.startswith(_AGAIN):
        return None
    return int.from_bytes(frame[len(_AGAIN) :], "big")


def _acceptor_body(dialler_nonce: bytes, acceptor_nonce: bytes, acceptor: Key) -> bytes:
    return dialler_nonce + acceptor_nonce + acceptor


def _dialler_body(acceptor_nonce: bytes, dialler_nonce: bytes, acceptor: Key, dialler: Key) -> bytes:
    return acceptor_nonce + dialler_nonce + acceptor + dialler


def _fields(frame: bytes, kind: bytes, *lengths: int) -> list[bytes]:
    """The fields of a frame of this kind, by their lengths; RemoteProtocolError if kind or size is wrong."""
    if frame[:1] != kind or len(frame) != 1 + sum(lengths):
        raise RemoteProtocolError(f"{len(frame)} bytes that are no {_NAMES[kind]} of a link")
    fields, start = [], 1
    for length in lengths:
        fields.append(frame[start : start + length])
        start += length
    return fields
