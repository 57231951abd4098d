"""What an inviter and a joiner keep in the run's folder until the list is closed: one file each, mode 0600.

The files hold the secrets of codes. They are written whole and durably before anything is said that follows
from them, so a crash gives no stranger another try, and no member is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from node.storage.owners_files import keep_file, read_record
from node.storage.swarm_file import Own
from node.system.disk import DISK, Disk
from protocol.crypto.node_key import NodeKey
from protocol.invitation.inviter import Seat
from protocol.invitation.joiner import Place
from protocol.invitation.messages import MAX_MESSAGE_BYTES, MAX_TASK_BYTES
from protocol.invitation.roster import Member, Relays, Roster, close_list, vouch_for
from protocol.relay.admission import Relay
from protocol.relay.room_messages import OpenRooms
from protocol.wire.dialect import Dialect
from protocol.wire.fields import Most, Name, Octets, Text
from protocol.wire.limits import MAX_MEMBERS

INVITING, JOINING = "invite.state", "join.state"
LATER = "later"
"""The folder, in that of a run, of an invitation to later members."""
_MOST_BYTES = 2 * MAX_MESSAGE_BYTES + 96 * 1024


@dataclass(frozen=True)
class Inviting:
    """What an inviter keeps. `swarm`: the task's name; `roster`: the list, once it is closed.

    `relays`: in order of use; the rooms of all codes are at the first. Who invites later members has the list
    `so_far`, to which they come, and the task `agreed` by those who learn with it, if they agreed on one.
    """

    swarm: Annotated[str, Text(80)]
    me: Name
    task: Annotated[bytes, Octets(1, MAX_TASK_BYTES)]
    relays: Relays
    seats: Annotated[tuple[Seat, ...], Most(MAX_MEMBERS)]
    own: Own
    roster: Annotated[tuple[Roster, ...], Most(1)] = ()
    so_far: Annotated[tuple[Roster, ...], Most(1)] = ()
    agreed: Annotated[bytes, Octets(0, MAX_TASK_BYTES)] = b""

    @property
    def relay(self) -> Relay:
        """Where the rooms are."""
        return self.relays[0]

    def asking(self, keep: tuple[str, ...], more: int) -> OpenRooms:
        """What is asked of that relay: by its licence, or, for later members, as a member of the swarm."""
        shown = tuple(roster.credentials(self.relay) for roster in self.so_far)
        return OpenRooms(b"", b"" if shown else self.relay.licence, keep, more, shown)

    def others(self, seat: Seat) -> tuple[str, ...]:
        """The names of all but the inviter and the owner of a seat."""
        members = sorted(member.name for roster in self.so_far for member in roster.everyone)
        seats = (other.name for other in self.seats)
        return tuple(name for name in dict.fromkeys((*members, *seats)) if name not in (self.me, seat.name))

    def closed(self, key: NodeKey, nonce: bytes) -> Roster:
        """The list with those who are here: signed, or with the inviter's word for each later member."""
        here = [Member(seat.name, seat.key) for seat in self.seats if seat.is_taken]
        if not self.so_far:
            members = [Member(self.me, key.public), *here]
            return close_list(key, members, self.task, self.relays, nonce)
        roster = self.so_far[0]
        for newcomer in here:
            roster = roster.with_word(vouch_for(key, roster, newcomer))
        return roster


@dataclass(frozen=True)
class Joining:
    """What a joiner keeps."""

    place: Place
    own: Own


_INVITING: Dialect[Inviting] = Dialect("an inviter's state", 1, (Inviting,), _MOST_BYTES)
_JOINING: Dialect[Joining] = Dialect("a joiner's state", 1, (Joining,), _MOST_BYTES)


def keep_inviting(folder: Path, state: Inviting, disk: Disk = DISK) -> None:
    """Stores the inviter's state; durable on return. Raises ConfigError."""
    keep_file(folder / INVITING, _INVITING.write(state), disk)


def keep_joining(folder: Path, state: Joining, disk: Disk = DISK) -> None:
    """Stores the joiner's state; durable on return. Raises ConfigError."""
    keep_file(folder / JOINING, _JOINING.write(state), disk)


def kept_inviting(folder: Path) -> Inviting | None:
    """The inviter's state; None if the folder has none. Raises ConfigError."""
    return read_record(folder / INVITING, _INVITING, _MOST_BYTES)


def kept_joining(folder: Path) -> Joining | None:
    """The joiner's state; None if the folder has none. Raises ConfigError."""
    return read_record(folder / JOINING, _JOINING, _MOST_BYTES)


def joins_below(folder: Path) -> Iterator[tuple[Path, Joining]]:
    """Yields the folders directly in `folder` in which somebody joins, with what is kept there."""
    try:
        paths = sorted(path.parent for path in folder.glob(f"*/{JOINING}"))
    except OSError:
        return
    for path in paths:
        if (state := kept_joining(path)) is not None:
            yield path, state
