"""Admission to a relay: which members it carries for, and by whose word. The relay stores nothing of it.

A relay gives an inviter a licence: its signature over the inviter's key. The inviter signs the list of a
swarm's members. Each member shows both at each connection, so a relay that starts again with the same key
admits the same members.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.crypto.node_key import NodeKey, verify
from protocol.wire.ids import Key

_LICENCE, _MEMBERS = b"relay-licence", b"relay-members"


@dataclass(frozen=True)
class Relay:
    """A relay of a swarm. `endpoint`: HOST:PORT; `licence`: the relay's signature over the inviter's key."""

    endpoint: str
    key: Key
    licence: bytes


@dataclass(frozen=True)
class Members:
    """The members of a swarm, signed by its inviter. `swarm`: its id, 32 bytes; `keys` ascend."""

    swarm: bytes
    keys: tuple[Key, ...]
    inviter: Key
    signature: bytes


def license_inviter(relay: NodeKey, inviter: Key) -> bytes:
    """The licence by which this relay carries for all swarms of an inviter."""
    return relay.sign(_LICENCE, inviter)


def sign_members(inviter: NodeKey, swarm: bytes, keys: tuple[Key, ...]) -> Members:
    """The members of a swarm, signed by their inviter."""
    ordered = tuple(sorted(keys))
    return Members(swarm, ordered, inviter.public, inviter.sign(_MEMBERS, swarm + b"".join(ordered)))


def check_members(members: Members, relay: Key, licence: bytes) -> None:
    """Raises RemoteProtocolError unless the relay licensed the inviter, and the inviter signed the list."""
    verify(relay, _LICENCE, members.inviter, licence)
    verify(members.inviter, _MEMBERS, members.swarm + b"".join(members.keys), members.signature)
