"""Who decides on the next model, as a folder knows it, and who of them is gone for good by its owner's word.

The word is a fact of `state.db` (`gone`): read when the node starts, shown to the others with each READY, and
of no use any more once there is a base with another anchor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgpack

from node.errors import ConfigError, shown
from node.storage.database import Database, Fact
from node.storage.folder_lock import STATE
from node.storage.state import base_in, gone_in, line_in
from protocol.quorum.electorate import Electorate
from protocol.wire import codec
from protocol.wire.endpoints import is_canonical
from protocol.wire.messages import Base, Group, Key

KEY_DIGITS = 16


@dataclass(frozen=True)
class KnownElectors:
    """As a folder knows them. `electorate`: None where its anchor is a first base.

    `endpoints`: where those listened that this node was in a session with.
    """

    key: Key
    base: Base
    electorate: Electorate | None
    gone: frozenset[bytes]
    endpoints: Mapping[Key, str]

    def named(self, elector: bytes) -> str:
        """For people."""
        return elector_name(elector, self.endpoints)


def elector_name(elector: bytes, endpoints: Mapping[Key, str]) -> str:
    """An elector for people: its key's first digits, and where it listened; of a first base its endpoint."""
    text = elector.decode("ascii", "replace")
    if is_canonical(text):
        return text
    digits, where = elector.hex()[:KEY_DIGITS], endpoints.get(elector)
    return digits if where is None else f"{digits} at {where}"


def endpoints_of(groups: Iterable[Group]) -> dict[Key, str]:
    """Where their members listened; the last group that names one counts."""
    return {ready.key: ready.announce.endpoint for group in groups for ready in group.readys}


@contextmanager
def opened(folder: Path) -> Iterator[Database]:
    """The database of a folder that no node uses. ConfigError for one that nothing can be read from."""
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
    """What the folder knows."""
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
    """Who is gone from now on, in place of who was: on the disk when this is over."""
    named = sorted(gone)
    with database.step():
        database.set_facts(gone=bytes(msgpack.packb(named)) if named else None)


def quorum_words(electorate: Electorate, without: frozenset[bytes]) -> str:
    """How many of those that are left make a quorum."""
    left = [member for member in electorate.members if member not in without]
    first = electorate.members[0]
    more = len(left) // 2 + 1
    words = f"{more} of the {len(left)}" if without else f"{more} of {len(left)}"
    if len(left) % 2 or first not in left:
        return f"{words} make a quorum"
    return f"{words} make a quorum, or {more - 1} with {first.hex()[:KEY_DIGITS]} among them"


def find(written: str, known: KnownElectors) -> bytes:
    """The elector that is meant. ConfigError, which says who there is."""
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
            "--peers, or the 64 digits of a key, where a tracker named the electors; or none: takes all back"
        )
    others = ", ".join(known.named(one) for one in known.electorate.members if one != known.key)
    return ConfigError(
        f"--gone {shown(written)} is refused; allowed: at least 8 digits that one elector's key begins with, "
        f"or its endpoint, of: {others}; or none, which takes all back"
    )


def _bytes(value: Fact) -> bytes:
    return value if isinstance(value, bytes) else b""
