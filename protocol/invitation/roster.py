"""The list of a swarm's members, what they learn and through which relays, signed by the inviter.

The digest of the list is the swarm's id. Relays admit its keys, nodes learn only with them, and nodes with
different lists cannot meet. The list is never changed: a later member comes by the word of an earlier one,
and each owner decides whether its own node learns with it.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

import msgpack

from protocol.crypto.node_key import NodeKey
from protocol.errors import RemoteProtocolError
from protocol.relay.admission import (
    Credentials,
    Members,
    Pass,
    Relay,
    check_members,
    check_vouch,
    sign_members,
    vouch,
)
from protocol.wire import signing
from protocol.wire.fields import Digest, Most, Name, Nonce, Signature
from protocol.wire.ids import Key
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Vouch
from protocol.wire.records import plain

MOST_RELAYS = 3
NO_SIGNATURE = bytes(64)


def folded(name: str) -> str:
    """What names have in common that people would confuse: letter case, width and accents' form are gone."""
    return unicodedata.normalize("NFKC", name).casefold()


def same_name(names: Iterable[str]) -> str | None:
    """A name that people would take for an earlier one, if any."""
    known: set[str] = set()
    for name in names:
        if folded(name) in known:
            return name
        known.add(folded(name))
    return None


Relays = Annotated[tuple[Relay, ...], Most(MOST_RELAYS)]


@dataclass(frozen=True)
class Member:
    """A member of a swarm, by the name that whoever invited it gave it."""

    name: Name
    key: Key


@dataclass(frozen=True)
class Roster:
    """The list. `members` ascend by key; `task`: the digest of the task's text; `relays`: in order of use.

    `later`: who came later and is accepted by the owner of this copy, each by the word of a member or of
    somebody before it. One with the name of an earlier member takes its place: that person has a new key.
    """

    nonce: Nonce
    inviter: Key
    members: Annotated[tuple[Member, ...], Most(MAX_MEMBERS)]
    task: Digest
    relays: Relays
    signature: Signature
    later: Annotated[tuple[Vouch, ...], Most(MAX_MEMBERS)] = ()

    @property
    def digest(self) -> bytes:
        """The id of the swarm, 32 bytes: all that the inviter signed, but for the signature."""
        said = plain(replace(self, signature=NO_SIGNATURE, later=()))
        return hashlib.sha256(b"murmuration/1/roster" + msgpack.packb(said)).digest()

    @property
    def admission(self) -> Members:
        """The list as relays see it."""
        return Members(self.digest, tuple(m.key for m in self.members), self.inviter, self.signature)

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The words for later members, as relays see them."""
        return tuple(Pass(each.key, each.member, each.admission) for each in self.later)

    def credentials(self, relay: Relay) -> Credentials:
        """What a member shows to one of the relays."""
        return Credentials(self.admission, relay.licence, self.passes)

    @property
    def everyone(self) -> tuple[Member, ...]:
        """All members, the later ones last, without those whose place another one took."""
        of_name = {folded(each.name): each for each in self.members}
        for each in self.later:
            of_name.pop(folded(each.name), None)
            of_name[folded(each.name)] = Member(each.name, each.key)
        return tuple(of_name.values())

    @property
    def keys(self) -> frozenset[Key]:
        """The keys of all members, also of those whose place another one took."""
        return frozenset((*(each.key for each in self.members), *(each.key for each in self.later)))

    def with_word(self, vouch: Vouch) -> Roster:
        """The list with one more later member."""
        return replace(self, later=(*self.later, vouch))

    def sponsor(self, key: Key) -> Key:
        """Who answers for a member."""
        return next((each.member for each in self.later if each.key == key), self.inviter)

    def named(self, name: str) -> Member | None:
        """The member whose name is this one, or would be taken for it; None if there is none."""
        return next((each for each in self.everyone if folded(each.name) == folded(name)), None)


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
    known = {*keys}
    for each in roster.later:
        if each.member not in known or each.key in known:
            raise RemoteProtocolError("a later member that is one already, or comes by no member's word")
        check_vouch(each, roster.digest)
        known.add(each.key)


def vouch_for(sponsor: NodeKey, roster: Roster, newcomer: Member) -> Vouch:
    """A member's signed word for a later one."""
    swarm = roster.digest
    admission = vouch(sponsor, swarm, newcomer.key).signature
    said = Vouch(swarm, newcomer.name, newcomer.key, sponsor.public, admission)
    return signing.sign(said, sponsor)


def _keys(members: Iterable[Member]) -> tuple[Key, ...]:
    return tuple(member.key for member in members)
