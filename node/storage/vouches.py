"""`vouches.state` in a run's folder: members' words for newcomers, as this node has heard them.

The node writes it as it hears of one, and its owner decides: `murmuration members` reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from node.storage.owners_files import keep_file, read_record
from node.storage.swarm_file import Swarm
from node.system.disk import DISK, Disk
from protocol.errors import RemoteProtocolError
from protocol.relay.admission import check_vouch
from protocol.wire.dialect import Dialect
from protocol.wire.fields import Most
from protocol.wire.limits import MAX_MEMBERS
from protocol.wire.messages import Vouch

VOUCHES = "vouches.state"
SPENT_UNKNOWN = "what it has spent of its privacy budget with the former key is unknown"
"""Of a member that has a new key: only the former one is counted."""
_MOST_BYTES = 64 * 1024


@dataclass(frozen=True)
class Vouches:
    """The words, in the order in which they came."""

    words: Annotated[tuple[Vouch, ...], Most(MAX_MEMBERS)]


_VOUCHES: Dialect[Vouches] = Dialect("the words for newcomers", 1, (Vouches,), _MOST_BYTES)


def keep_vouch(folder: Path, vouch: Vouch, disk: Disk = DISK) -> None:
    """Adds a word, durably; the oldest one goes where there are too many. Raises ConfigError."""
    words = (*(each for each in _kept(folder) if each.key != vouch.key), vouch)
    keep_file(folder / VOUCHES, _VOUCHES.write(Vouches(words[-MAX_MEMBERS:])), disk)


def newcomers(folder: Path, swarm: Swarm) -> tuple[Vouch, ...]:
    """The words for those whom the owner has neither accepted nor removed, by somebody it learns with.

    Raises ConfigError.
    """
    return tuple(each for each in _kept(folder) if _is_open(each, swarm))


def _kept(folder: Path) -> tuple[Vouch, ...]:
    found = read_record(folder / VOUCHES, _VOUCHES, _MOST_BYTES)
    return () if found is None else found.words


def _is_open(vouch: Vouch, swarm: Swarm) -> bool:
    try:
        check_vouch(vouch, swarm.roster.digest)
    except RemoteProtocolError:
        return False
    return vouch.key not in swarm.roster.keys and vouch.member in swarm.learned_with
