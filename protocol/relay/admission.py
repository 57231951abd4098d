"""Admission to a relay: which members it carries for, and by whose word. The relay stores nothing of it.

A relay gives an inviter a licence: its signature over the inviter's key, bound to the relay's word. The
inviter signs the list of a swarm's members. Each member shows both at each connection, so a relay that starts
again with the same key and the same word admits the same members; another word ends all licences.

    member   Admit      the carrier's kind, the process; the list, the licence, passes   ──▶  relay
             Welcome    the relay's limits                                               ◀──
          or Refused    why, and whether it is worth another try

The handshake of protocol.wire.handshake comes first, under the labels of a relay. A pass is a member's
signature over the key of a later member. A key is admitted if it is on the list, or if a chain of passes
leads from the list to it. By the same credentials each member may open rooms to invite a further one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

from protocol.crypto.node_key import NodeKey, verify
from protocol.errors import RemoteProtocolError
from protocol.wire import signing
from protocol.wire.dialect import Dialect
from protocol.wire.fields import Count, Digest, Endpoint, Most, Signature, Text, Whole
from protocol.wire.ids import Key
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Vouch

_LICENCE, _MEMBERS, _PASS, _WORD = b"relay-licence", b"relay-members", b"relay-pass", b"relay-word"
SUBPROTOCOL = "murmuration-relay.1"
"""The websocket's subprotocol, of carriers and of rooms."""
MAX_ADMISSION_BYTES = 16 * 1024
"""The longest record of an admission: 64 keys and 64 passes take 11 kB."""
MAX_WHY_CHARS = 300
OTHER_WORD = "its inviter's word was changed"
"""Why a relay refuses a swarm whose licence does not hold."""


class CarrierKind(IntEnum):
    """What a carrier carries; a member has one carrier of each kind at each relay."""

    CONTROL = 0
    """Streams of websockets, whose messages are small."""
    BULK = 1
    """Streams of POSTs."""


@dataclass(frozen=True)
class Relay:
    """A relay of a swarm. `endpoint`: HOST:PORT; `licence`: the relay's signature over the inviter's key."""

    endpoint: Endpoint
    key: Key
    licence: Signature


@dataclass(frozen=True)
class Members:
    """The members of a swarm, signed by its inviter. `swarm`: its id, 32 bytes; `keys` ascend."""

    swarm: Digest
    keys: Annotated[tuple[Key, ...], Most(MAX_MEMBERS)]
    inviter: Key
    signature: Signature


@dataclass(frozen=True)
class Pass:
    """The word of `member` for the further member `key`, in one swarm."""

    key: Key
    member: Key
    signature: Signature


@dataclass(frozen=True)
class Credentials:
    """Why a relay serves a member: its swarm's list, the licence of whoever signed it, and passes.

    Passes are in the order of their chain: each member is on the list, or an earlier pass is for its key.
    """

    members: Members
    licence: Signature
    passes: Annotated[tuple[Pass, ...], Most(MAX_MEMBERS)] = ()


@dataclass(frozen=True)
class Admit:
    """A member asks for a carrier. `process`: a number drawn at its start; HERE tells others of a new one."""

    kind: CarrierKind
    process: Annotated[int, Whole(0, 2**64 - 1)]
    credentials: Credentials


@dataclass(frozen=True)
class Welcome:
    """The relay carries. `bytes_per_s`, `burst_bytes`: of a member; `bytes_per_day`: of its swarm."""

    bytes_per_s: Count
    burst_bytes: Count
    bytes_per_day: Count


@dataclass(frozen=True)
class Refused:
    """The relay does not. `why`: for people; `is_final`: the same question will have the same answer."""

    why: Annotated[str, Text(MAX_WHY_CHARS)]
    is_final: bool


_ADMISSION: Dialect[Admit | Welcome | Refused] = Dialect(
    "a relay's admission", 1, (Admit, Welcome, Refused), MAX_ADMISSION_BYTES
)
write_admission = _ADMISSION.write


def read_admit(packed: bytes) -> Admit:
    """What a member asks for. Raises RemoteProtocolError."""
    found = _ADMISSION.read(packed)
    if not isinstance(found, Admit):
        raise RemoteProtocolError("a member that does not ask to be admitted")
    return found


def read_answer(packed: bytes) -> Welcome | Refused:
    """What the relay answers. Raises RemoteProtocolError."""
    found = _ADMISSION.read(packed)
    if isinstance(found, Admit):
        raise RemoteProtocolError("a relay that asks to be admitted")
    return found


class Licences:
    """The licences of one relay under its word. Only the holder of the relay's key can make or check them."""

    def __init__(self, relay: NodeKey, word: str) -> None:
        self._relay = relay
        # A signature that is never shown: whoever has a licence cannot try words against it.
        self._term = hashlib.sha256(relay.sign(_WORD, word.encode())).digest()
        self.relay = relay.public

    def give(self, inviter: Key) -> bytes:
        """The licence by which this relay carries for all swarms of an inviter."""
        return self._relay.sign(_LICENCE, inviter + self._term)

    def check(self, inviter: Key, licence: bytes) -> None:
        """Raises RemoteProtocolError unless this relay gave the inviter this licence, under the same word."""
        try:
            verify(self._relay.public, _LICENCE, inviter + self._term, licence)
        except RemoteProtocolError as error:
            raise RemoteProtocolError(OTHER_WORD) from error


def sign_members(inviter: NodeKey, swarm: bytes, keys: tuple[Key, ...]) -> Members:
    """The members of a swarm, signed by their inviter."""
    ordered = tuple(sorted(keys))
    return Members(swarm, ordered, inviter.public, inviter.sign(_MEMBERS, swarm + b"".join(ordered)))


def check_members(members: Members) -> None:
    """Raises RemoteProtocolError unless the inviter signed the list."""
    verify(members.inviter, _MEMBERS, members.swarm + b"".join(members.keys), members.signature)


def vouch(member: NodeKey, swarm: bytes, key: Key) -> Pass:
    """The pass by which a member vouches for a further one."""
    return Pass(key, member.public, member.sign(_PASS, swarm + key))


def check_pass(swarm: bytes, shown: Pass) -> None:
    """Raises RemoteProtocolError unless the member signed this pass for this swarm."""
    verify(shown.member, _PASS, swarm + shown.key, shown.signature)


def check_vouch(said: Vouch, swarm: bytes) -> None:
    """Raises RemoteProtocolError unless the member signed this word for this swarm, and for relays, too."""
    if said.swarm != swarm:
        raise RemoteProtocolError("a word for somebody in another swarm")
    signing.verify(said, said.member)
    check_pass(swarm, Pass(said.key, said.member, said.admission))


def admitted_keys(shown: Credentials, key: Key, licences: Licences) -> frozenset[Key]:
    """The keys of a swarm as its member `key`, which has proved itself, shows them: the list and the passes.

    Raises RemoteProtocolError unless the relay serves the key.
    """
    members = shown.members
    if key not in (*members.keys, *(each.key for each in shown.passes)):
        raise RemoteProtocolError("this key is not on the list of its swarm")
    licences.check(members.inviter, shown.licence)
    check_members(members)
    known = {*members.keys}
    for each in shown.passes:
        if each.member not in known:
            raise RemoteProtocolError("a pass by somebody who is no member")
        check_pass(members.swarm, each)
        known.add(each.key)
    return frozenset(known)
