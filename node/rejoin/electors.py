"""The electors of the next model that a folder knows, and those that its owner declared gone for good.

The declaration is a fact of `state.db` (`gone`): the node reads it at its start and sends it to the others
with each READY. It has no effect any more once there is a base with another anchor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgpack

from node.storage.database import Database, Fact
from node.storage.folder_lock import STATE
from node.storage.state import base_in, gone_in, line_in
from node.system.errors import ConfigError, shown
from protocol.quorum.electorate import Electorate
from protocol.wire import codec
from protocol.wire.endpoints import is_canonical
from protocol.wire.messages import Base, Group, Key

KEY_DIGITS = 16


@dataclass(frozen=True)
class KnownElectors:
    """The electors that a folder knows. `electorate`: None if the anchor is a first base.

    `endpoints`: the listening addresses of members of this node's sessions.
    """

    key: Key
    base: Base
    electorate: Electorate | None
    gone: frozenset[bytes]
    endpoints: Mapping[Key, str]

    def named(self, elector: bytes) -> str:
        """Returns an elector's name for display."""
        return elector_name(elector, self.endpoints)


def elector_name(elector: bytes, endpoints: Mapping[Key, str]) -> str:
    """Returns an elector's name for display: its key's first digits and endpoint, or its endpoint alone.

    An elector of a first base is named by its endpoint.
    """
    text = elector.decode("ascii", "replace")
    if is_canonical(text):
        return text
    digits, where = elector.hex()[:KEY_DIGITS], endpoints.get(elector)
    return digits if where is None else f"{digits} at {where}"


def endpoints_of(groups: Iterable[Group]) -> dict[Key, str]:
    """Returns the endpoints of the groups' members; the last group that has a member is decisive."""
    return {ready.key: ready.announce.endpoint for group in groups for ready in group.readys}


@contextmanager
def opened(folder: Path) -> Iterator[Database]:
    """Opens the database of a folder that no node uses. Raises ConfigError if it has no base to read."""
    database = Database(folder / STATE)
    try:
        if database.is_older or database.fact("base") is None:
            raise ConfigError(
                f"--out {folder} was not used by this version yet: start its node once, then run this again"
            )
        yield database
    finally:
        database.close()


def read_electors(database: Database) -> KnownElectors:
    """Returns the electors that the folder's database knows."""
    line, before = (line_in(database.fact(name)) for name in ("line", "previous_line"))
    rows = database.rows("select frame from session order by number")
    votes = database.rows("select frame from vote where frame is not null")
    frames = [codec.decode(frame) for (frame,) in (*rows, *votes) if isinstance(frame, bytes)]
    links = (link.group for link in (*before.whole, *line.whole))
    groups = [*links, *(frame for frame in frames if isinstance(frame, Group))]
    return KnownElectors(
        key=_bytes(database.fact("key")),
        base=base_in(_bytes(database.fact("base"))),
        electorate=line.electors,
        gone=gone_in(database.fact("gone")),
        endpoints=endpoints_of(groups),
    )


def store_gone(database: Database, gone: Iterable[bytes]) -> None:
    """Stores the electors that are gone, in place of those stored before; durable on return."""
    named = sorted(gone)
    with database.step():
        database.set_facts(gone=bytes(msgpack.packb(named)) if named else None)


def quorum_words(electorate: Electorate, without: frozenset[bytes]) -> str:
    """Returns, in words, how many of the remaining electors make a quorum."""
    left = [member for member in electorate.members if member not in without]
    first = electorate.members[0]
    more = electorate.needed(without)
    words = f"{more} of the {len(left)}" if without else f"{more} of {len(left)}"
    if electorate.tolerated or len(left) % 2 or first not in left:
        return f"{words} make a quorum"
    return f"{words} make a quorum, or {more - 1} with {first.hex()[:KEY_DIGITS]} among them"


def find(written: str, known: KnownElectors) -> bytes:
    """Returns the elector that `written` names. Raises ConfigError, which lists the electors."""
    electorate = known.electorate
    refused = _refused(written, known)
    if electorate is None:
        text = written.lower()
        if is_canonical(text):
            return text.encode()
        if len(text) == 2 * len(known.key) and _is_hex(text):
            return bytes.fromhex(text)
        raise refused
    found = [one for one in electorate.members if _fits(written.lower(), one, known.endpoints)]
    if len(found) != 1:
        raise refused
    if found[0] == known.key:
        raise ConfigError(f"--gone {shown(written)} is this node itself; allowed: another elector")
    return found[0]


def _fits(written: str, key: Key, endpoints: Mapping[Key, str]) -> bool:
    is_beginning = len(written) >= 8 and _is_hex(written) and key.hex().startswith(written)
    return is_beginning or endpoints.get(key) == written


def _is_hex(text: str) -> bool:
    return bool(text) and set(text) <= set("0123456789abcdef")


def _refused(written: str, known: KnownElectors) -> ConfigError:
    if known.electorate is None:
        return ConfigError(
            f"--gone {shown(written)} is refused; allowed, for a first model: HOST:PORT as it stands in "
            "--peers, or the 64 digits of a key, where a tracker named the electors; or none: withdraws all"
        )
    others = ", ".join(known.named(one) for one in known.electorate.members if one != known.key)
    return ConfigError(
        f"--gone {shown(written)} is refused; allowed: at least 8 digits that one elector's key begins with, "
        f"or its endpoint, of: {others}; or none, which withdraws all"
    )


def _bytes(value: Fact) -> bytes:
    return value if isinstance(value, bytes) else b""
