"""What an inviter and a joiner keep in the run's folder until the list is closed: one file each, mode 0600.

The files hold the secrets of codes. They are written whole and durably before anything is said that follows
from them, so a crash gives no stranger another try, and no member is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from node.storage.regular_files import check_regular
from node.storage.whole_files import OWNERS_FOLDER, replace_file
from node.system.disk import DISK, Disk
from node.system.errors import ConfigError, one_line, reason
from protocol.errors import RemoteProtocolError
from protocol.invitation.inviter import Seat
from protocol.invitation.joiner import Place
from protocol.invitation.messages import MAX_MESSAGE_BYTES, MAX_TASK_BYTES
from protocol.invitation.roster import Name, Relays, Roster
from protocol.relay.admission import Relay
from protocol.wire.dialect import Dialect, Record
from protocol.wire.fields import Most, Octets, Text
from protocol.wire.limits import MAX_MEMBERS

INVITING, JOINING = "invite.state", "join.state"
_MOST_BYTES = MAX_MESSAGE_BYTES + 64 * 1024


@dataclass(frozen=True)
class Own:
    """What this node alone decides. `data`: its rows; the next two: as typed for its own file, or empty.

    `removed`: keys, in hex, with which its owner no longer learns.
    """

    data: Annotated[str, Text(4096)]
    cells: Annotated[str, Text(4096)] = ""
    blank_person: Annotated[str, Text(40)] = ""
    removed: Annotated[tuple[Annotated[str, Text(64)], ...], Most(MAX_MEMBERS)] = ()

    @property
    def arguments(self) -> list[str]:
        """The options of a node that say so."""
        cells = ["--cells", self.cells] if self.cells else []
        return [
            "--data",
            self.data,
            *cells,
            *(["--blank-person", self.blank_person] if self.blank_person else []),
        ]


@dataclass(frozen=True)
class Inviting:
    """What an inviter keeps. `swarm`: the task's name; `roster`: the list, once it is closed.

    `relays`: in order of use; the rooms of all codes are at the first.
    """

    swarm: Annotated[str, Text(80)]
    me: Name
    task: Annotated[bytes, Octets(1, MAX_TASK_BYTES)]
    relays: Relays
    seats: Annotated[tuple[Seat, ...], Most(MAX_MEMBERS)]
    own: Own
    roster: Annotated[tuple[Roster, ...], Most(1)] = ()

    @property
    def relay(self) -> Relay:
        """Where the rooms are."""
        return self.relays[0]


@dataclass(frozen=True)
class Joining:
    """What a joiner keeps."""

    place: Place
    own: Own


_INVITING: Dialect[Inviting] = Dialect("an inviter's state", 1, (Inviting,), _MOST_BYTES)
_JOINING: Dialect[Joining] = Dialect("a joiner's state", 1, (Joining,), _MOST_BYTES)


def keep_inviting(folder: Path, state: Inviting, disk: Disk = DISK) -> None:
    """Stores the inviter's state; durable on return. Raises ConfigError."""
    _keep(folder / INVITING, _INVITING.write(state), disk)


def keep_joining(folder: Path, state: Joining, disk: Disk = DISK) -> None:
    """Stores the joiner's state; durable on return. Raises ConfigError."""
    _keep(folder / JOINING, _JOINING.write(state), disk)


def kept_inviting(folder: Path) -> Inviting | None:
    """The inviter's state; None if the folder has none. Raises ConfigError."""
    return _kept(folder / INVITING, _INVITING)


def kept_joining(folder: Path) -> Joining | None:
    """The joiner's state; None if the folder has none. Raises ConfigError."""
    return _kept(folder / JOINING, _JOINING)


def joins_below(folder: Path) -> Iterator[tuple[Path, Joining]]:
    """Yields the folders directly in `folder` in which somebody joins, with what is kept there."""
    try:
        paths = sorted(path.parent for path in folder.glob(f"*/{JOINING}"))
    except OSError:
        return
    for path in paths:
        if (state := kept_joining(path)) is not None:
            yield path, state


def new_file_in(folder: Path, name: str, content: bytes, disk: Disk = DISK) -> None:
    """Writes a file of the run's folder, which it makes. Raises ConfigError."""
    _keep(folder / name, content, disk)


def read_limited(path: Path, most: int) -> bytes | None:
    """The content of a file of at most so many bytes; None if it is not there. Raises ConfigError."""
    try:
        check_regular(path)
        with path.open("rb") as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{one_line(str(path))} cannot be read: {reason(error)}") from error
    if len(content) > most:
        raise ConfigError(f"{one_line(str(path))} is refused: it has more than {most} bytes")
    return content


def _keep(path: Path, content: bytes, disk: Disk) -> None:
    try:
        path.parent.mkdir(mode=OWNERS_FOLDER, parents=True, exist_ok=True)
        replace_file(path, (content,), durable=True, disk=disk)
    except OSError as error:
        raise ConfigError(f"{one_line(str(path))} cannot be written: {reason(error)}") from error


def _kept(path: Path, dialect: Dialect[Record]) -> Record | None:
    content = read_limited(path, _MOST_BYTES)
    try:
        return None if content is None else dialect.read(content)
    except RemoteProtocolError as error:
        raise ConfigError(
            f"{one_line(str(path))} is damaged ({error}): delete it, and begin again"
        ) from error
