"""The list of a swarm's members, what they learn and through which relays, signed by the inviter.

The digest of the list is the swarm's id. Relays admit its keys, nodes learn only with them, and nodes with
different lists cannot meet.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgpack

from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.relay.admission import Members, Relay, check_members, sign_members
from protocol.wire.fields import Digest, Most, Nonce, Signature
from protocol.wire.ids import Key
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.records import plain

LONGEST_NAME = 40  # characters
MOST_RELAYS = 3
NO_SIGNATURE = bytes(64)


def is_name(written: str) -> bool:
    """Whether a member may be called so: 1 to 40 characters that can be seen, none of them around it."""
    return 1 <= len(written) <= LONGEST_NAME and written.isprintable() and written == written.strip()


def same_name(names: Iterable[str]) -> str | None:
    """A name that people would take for an earlier one (by letter case, width or accents' form), if any."""
    known: set[str] = set()
    for name in names:
        folded = unicodedata.normalize("NFKC", name).casefold()
        if folded in known:
            return name
        known.add(folded)
    return None


def member_name(value: Any) -> str:
    """Reads a member's name."""
    if type(value) is not str or not is_name(value):
        raise RemoteProtocolError("a member's name that is empty, too long, or cannot be shown")
    return value


Name = Annotated[str, member_name]
Relays = Annotated[tuple[Relay, ...], Most(MOST_RELAYS)]


@dataclass(frozen=True)
class Member:
    """A member of a swarm, by the name that its inviter gave it."""

    name: Name
    key: Key


@dataclass(frozen=True)
class Roster:
    """The list. `members` ascend by key; `task`: the digest of the task's text; `relays`: in order of use."""

    nonce: Nonce
    inviter: Key
    members: Annotated[tuple[Member, ...], Most(MAX_MEMBERS)]
    task: Digest
    relays: Relays
    signature: Signature

    @property
    def digest(self) -> bytes:
        """The id of the swarm, 32 bytes: all that the list says, but for the signature."""
        said = replace(self, signature=NO_SIGNATURE)
        return hashlib.sha256(b"murmuration/1/roster" + msgpack.packb(plain(said))).digest()

    @property
    def admission(self) -> Members:
        """What members show to relays."""
        return Members(self.digest, tuple(m.key for m in self.members), self.inviter, self.signature)


def task_digest(task: bytes) -> bytes:
    """SHA-256 of a task's text."""
    return hashlib.sha256(b"murmuration/1/task" + task).digest()


def close_list(
    inviter: NodeKey, members: Iterable[Member], task: bytes, relays: tuple[Relay, ...], nonce: bytes
) -> Roster:
    """The signed list of these members, the inviter among them. `nonce`: 16 random bytes."""
    ordered = tuple(sorted(members, key=lambda member: member.key))
    said = Roster(nonce, inviter.public, ordered, task_digest(task), relays, NO_SIGNATURE)
    return replace(said, signature=sign_members(inviter, said.digest, _keys(ordered)).signature)


def check_roster(roster: Roster) -> None:
    """Raises RemoteProtocolError unless the inviter signed the list and each of its members is one."""
    keys, names = _keys(roster.members), [member.name for member in roster.members]
    if list(keys) != sorted(set(keys)):
        raise RemoteProtocolError("a list of members whose keys do not ascend")
    if (twice := same_name(names)) is not None:
        raise RemoteProtocolError(f'two members would be called "{twice}"')
    if roster.inviter not in keys:
        raise RemoteProtocolError("a list of members that its inviter is not on")
    check_members(roster.admission)


def _keys(members: Iterable[Member]) -> tuple[Key, ...]:
    return tuple(member.key for member in members)
