"""`swarm.toml` in a run's folder: the signed list of members and relays, and what this node brings.

A node that was invited starts from this file and the task beside it, and needs nobody's word any more. The
owner may read it; `murmuration members` changes it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from node.storage.owners_files import keep_file, read_limited
from node.storage.plain import restored
from node.system.disk import DISK, Disk
from node.system.errors import ConfigError, one_line, reason
from node.system.toml_text import toml
from protocol.errors import RemoteProtocolError
from protocol.invitation.messages import SECRET
from protocol.invitation.roster import Member, Roster, check_roster
from protocol.relay.admission import Relay
from protocol.wire.fields import Most, Text
from protocol.wire.ids import Key
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Vouch

SWARM = "swarm.toml"
TASK = "task.toml"
AGREED = "task-agreed.toml"
"""The task with the scales that all agreed on, where it asks for that."""
AGREEMENT = "agreement"
"""The folder in which its node agrees on them."""
_MOST_BYTES = 1 << 20
_HEAD = """\
# The swarm of this folder: its members, as the inviter signed the list, and the relays between them; who came
# later by a member's word; and your own choices. `murmuration members` changes the last two.
"""


@dataclass(frozen=True)
class Own:
    """What this node alone decides. `data`: its rows; the next two: as typed for its own file, or empty.

    `encoder`: where it has the sentence encoder; empty: at the usual place.

    `removed`: keys, in hex, with which its owner no longer learns.
    """

    data: Annotated[str, Text(4096)]
    cells: Annotated[str, Text(4096)] = ""
    blank_person: Annotated[str, Text(40)] = ""
    removed: Annotated[tuple[Annotated[str, Text(64)], ...], Most(MAX_MEMBERS)] = ()
    encoder: Annotated[str, Text(4096)] = ""

    @property
    def arguments(self) -> list[str]:
        """The options of a node that say so."""
        cells = ["--cells", self.cells] if self.cells else []
        return [
            "--data",
            self.data,
            *cells,
            *(["--blank-person", self.blank_person] if self.blank_person else []),
            *(["--encoder", self.encoder] if self.encoder else []),
        ]


@dataclass(frozen=True)
class _Member:
    name: str
    key: str


@dataclass(frozen=True)
class _Vouch:
    name: str
    key: str
    member: str
    admission: str
    signature: str


@dataclass(frozen=True)
class _Relay:
    endpoint: str
    key: str
    licence: str


@dataclass(frozen=True)
class _Written:
    inviter: str
    nonce: str
    task: str
    signature: str
    members: tuple[_Member, ...]
    relays: tuple[_Relay, ...]
    own: Own
    later: tuple[_Vouch, ...] = ()


@dataclass(frozen=True)
class Swarm:
    """The list, with those who came later and are accepted by this owner, and what this node brings to it."""

    roster: Roster
    own: Own

    @property
    def names(self) -> Mapping[Key, str]:
        """The members' names by their keys."""
        return {member.key: member.name for member in self.roster.everyone}

    @property
    def learned_with(self) -> tuple[Key, ...]:
        """The keys of all members but those that this owner removed."""
        return tuple(
            member.key for member in self.roster.everyone if member.key.hex() not in self.own.removed
        )

    @property
    def removed(self) -> frozenset[Key]:
        """The keys of members with which this node learns no more: removed ones, and lost ones."""
        return self.roster.keys.difference(self.learned_with)

    def with_word(self, vouch: Vouch) -> Swarm:
        """The swarm after its owner accepted a later member."""
        return replace(self, roster=self.roster.with_word(vouch))

    def without(self, key: Key) -> Swarm:
        """The swarm after its owner removed a member."""
        return replace(self, own=replace(self.own, removed=tuple(sorted({*self.own.removed, key.hex()}))))

    def again_with(self, key: Key) -> Swarm:
        """The swarm after its owner took a member back."""
        return replace(self, own=replace(self.own, removed=tuple(sorted({*self.own.removed} - {key.hex()}))))


def write_swarm(folder: Path, swarm: Swarm, disk: Disk = DISK) -> None:
    """Writes the file, durably, for its owner alone. Raises ConfigError."""
    keep_file(folder / SWARM, swarm_text(swarm).encode(), disk)


def read_swarm(folder: Path) -> Swarm:
    """Reads the file, and checks the inviter's signature. Raises ConfigError."""
    path = folder / SWARM
    text = read_limited(path, _MOST_BYTES)
    if text is None:
        raise ConfigError(f"{one_line(str(path))} is not there: give the folder of a swarm that you joined")
    try:
        written = restored(_Written, tomllib.loads(text.decode("utf-8")))
        roster = _roster(written)
    except (ValueError, RecursionError, RemoteProtocolError) as error:
        raise ConfigError(
            f"{one_line(str(path))} is damaged ({reason(error)}): put a copy of it back, or join again"
        ) from error
    return Swarm(roster, written.own)


def swarm_text(swarm: Swarm) -> str:
    """The text of the file."""
    roster, own = swarm.roster, swarm.own
    lines = [
        *(_HEAD, f"inviter = {toml(roster.inviter.hex())}", f"nonce = {toml(roster.nonce.hex())}"),
        f"task = {toml(roster.task.hex())}    # SHA-256 of {TASK}",
        f"signature = {toml(roster.signature.hex())}",
    ]
    for member in roster.members:
        lines += ["", "[[members]]", f"name = {toml(member.name)}", f"key = {toml(member.key.hex())}"]
    for vouch in roster.later:
        lines += ["", "[[later]]", f"name = {toml(vouch.name)}", f"key = {toml(vouch.key.hex())}"]
        lines += [f"member = {toml(vouch.member.hex())}", f"admission = {toml(vouch.admission.hex())}"]
        lines += [f"signature = {toml(vouch.signature.hex())}"]
    for relay in roster.relays:
        lines += ["", "[[relays]]", f"endpoint = {toml(relay.endpoint)}", f"key = {toml(relay.key.hex())}"]
        lines += [f"licence = {toml(relay.licence.hex())}"]
    lines += ["", "[own]", f"data = {toml(own.data)}", f"cells = {toml(own.cells)}"]
    lines += [f"blank_person = {toml(own.blank_person)}", f"removed = {toml(list(own.removed))}"]
    lines += [f"encoder = {toml(own.encoder)}"] if own.encoder else []
    return "\n".join(lines) + "\n"


def _roster(written: _Written) -> Roster:
    """The list that a file holds. Raises ValueError or RemoteProtocolError."""
    members = tuple(Member(each.name, bytes.fromhex(each.key)) for each in written.members)
    relays = tuple(
        Relay(each.endpoint, bytes.fromhex(each.key), bytes.fromhex(each.licence)) for each in written.relays
    )
    inviter, nonce, task, signature = (
        bytes.fromhex(digits) for digits in (written.inviter, written.nonce, written.task, written.signature)
    )
    bare = Roster(nonce, inviter, members, task, relays, signature)
    later = tuple(_vouch(each, bare.digest) for each in written.later)
    found = SECRET.read(SECRET.write(replace(bare, later=later)))
    if not isinstance(found, Roster):
        raise RemoteProtocolError("no list of members")
    check_roster(found)
    return found


def _vouch(written: _Vouch, swarm: bytes) -> Vouch:
    key, member, admission, signature = (
        bytes.fromhex(digits)
        for digits in (written.key, written.member, written.admission, written.signature)
    )
    return Vouch(swarm, written.name, key, member, admission, signature)
