"""The database of a node's folder: small facts, the ledger of offers, sessions, bans. One SQLite file, WAL.

Every step is one transaction, so it survives kill -9; it waits for the disk unless it is not `durable`.
The file gets its name only when it is complete; so a kill never leaves an empty or damaged file: such a file
has lost data.

Versions: 1 has no `key` and no `epoch`; 1 and 2 have no anchors and no votes; 3 and 4 have messages of
wire versions 5 and 6. `upgrade` converts them to the current one, 5.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from node.storage.whole_files import sync, whole
from node.system.disk import DISK, Disk
from node.system.errors import ConfigError, UserError, database_advice, reason

Fact = str | int | bytes | None

_VERSION = 5
_TAKEN_OVER = (1, 2, 3, 4)
_VOTES = """create table if not exists vote (
    sid blob primary key, anchor integer not null, frame blob, proof blob, release blob,
    base_file text) without rowid;"""
_CHARGED = "create table if not exists charged (key blob primary key, frame blob not null);"
"""The newest CHARGED message of each key; a new message goes to the end."""
_TERMS = "create table if not exists terms (sid blob primary key, terms text not null) without rowid;"
"""What the charge of an offer was sized for. Earlier versions of form 5 neither have nor need this table."""
_SCHEMA = f"""
begin immediate;
create table fact (name text primary key, value) without rowid;
create table ledger (
    sid blob primary key, round integer not null, at_ms integer not null, clipped integer not null,
    events text not null, epsilon real, delta real) without rowid;
create table session (
    sid blob primary key, number integer not null, frame blob not null, base blob not null,
    certificate blob not null) without rowid;
create table banned (key blob primary key, evidence blob not null) without rowid;
{_VOTES}
{_CHARGED}
{_TERMS}
pragma user_version = {_VERSION};
commit;
"""


def create_database(path: Path, facts: Mapping[str, Fact], disk: Disk = DISK) -> None:
    """Creates a database with these facts, completely or not at all. Raises UserError if it fails."""
    try:
        with whole(path) as temporary:
            connection = sqlite3.connect(temporary, isolation_level=None)
            try:
                connection.executescript(_SCHEMA)
                connection.execute("begin immediate")
                connection.executemany("insert into fact values (?, ?)", facts.items())
                connection.execute("commit")
            finally:
                connection.close()
            sync(temporary, disk)
        sync(path.parent, disk)
    except sqlite3.Error as error:
        raise _refused(path, error) from error


class Database:
    """The tables and their transactions. Any thread may use it, one at a time; `State` ensures this."""

    def __init__(self, path: Path, disk: Disk = DISK) -> None:
        """Opens an existing database.

        Raises ConfigError if it is empty, damaged or of an unknown version, UserError if SQLite fails.
        """
        self._path = path
        self._disk = disk
        if not path.stat().st_size:
            raise ConfigError(_lost(path, "is empty"))
        if _is_cut_off(path):
            raise ConfigError(_lost(path, "is cut off"))
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise _refused(path, error) from error
        try:
            self._open()
        except BaseException as error:
            self._connection.close()
            if isinstance(error, sqlite3.Error):
                raise _refused(path, error) from error
            raise

    def _open(self) -> None:
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute("pragma synchronous = full")
        (version,) = self._connection.execute("pragma user_version").fetchone()
        (tables,) = self._connection.execute("select count(*) from sqlite_master").fetchone()
        if not tables:
            raise ConfigError(_lost(self._path, "is empty"))
        if version > _VERSION:
            raise ConfigError(
                f"{self._path} was made by a newer version of murmuration (its form is {version}, this one "
                f"knows up to {_VERSION}): install that version, or name another --out"
            )
        if version not in (*_TAKEN_OVER, _VERSION):
            raise ConfigError(f"{self._path} was made by another version of murmuration: name another --out")
        (found,) = self._connection.execute("pragma quick_check(1)").fetchone()
        if found != "ok":
            raise ConfigError(_lost(self._path, "is damaged"))
        query = "select count(*) from sqlite_master where type = 'table' and name = 'terms'"
        (terms,) = self._connection.execute(query).fetchone()
        if version == _VERSION and not terms:
            with self.step() as connection:
                connection.execute(_TERMS)
        self.version: int = version
        """The file's version. An older one needs `upgrade` before use."""

    @property
    def is_older(self) -> bool:
        """Whether the database needs `upgrade`."""
        return self.version != _VERSION

    def upgrade(self, facts: Mapping[str, Fact]) -> None:
        """Converts a database of an earlier version and adds the facts that it lacks, in one step.

        It deletes the stored sessions, votes and lines, because nothing reads their wire version any more,
        and with the lines which of their electors the owner declared gone.
        """
        with self.step() as connection:
            self.set_facts(line=None, previous_line=None, gone=None)
            self.set_facts(**facts)
            connection.execute("delete from session")
            connection.execute(_VOTES)
            connection.execute(_CHARGED)
            connection.execute(_TERMS)
            connection.execute("delete from vote")
            connection.execute(f"pragma user_version = {_VERSION}")
        self.version = _VERSION

    @contextmanager
    def step(self, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """Runs one transaction, completely or not at all. Raises UserError if SQLite cannot write it.

        If it is not `durable`, it survives kill -9, but after a power failure it, and all after it up to the
        next durable one, may be gone: the file is then as it was before.
        """
        if not durable:
            self._connection.execute("pragma synchronous = normal")
        try:
            self._connection.execute("begin immediate")
            yield self._connection
            self._disk.commit(self._path, self._connection, durable=durable)
        except BaseException as error:
            if self._connection.in_transaction:  # a full disk may have ended it already
                self._connection.execute("rollback")
            if isinstance(error, sqlite3.OperationalError):
                raise _refused(self._path, error) from error
            raise
        finally:
            if not durable:
                self._connection.execute("pragma synchronous = full")

    def fact(self, name: str) -> Fact:
        """Returns a small fact; None if it was never set."""
        row = self._connection.execute("select value from fact where name = ?", (name,)).fetchone()
        return row[0] if row else None

    def set_facts(self, **facts: Fact) -> None:
        """Sets small facts; call it within a step."""
        for name, value in facts.items():
            self._connection.execute("insert or replace into fact values (?, ?)", (name, value))

    def rows(self, query: str, *values: bytes) -> list[tuple[object, ...]]:
        """Returns all rows of a query, with values in the place of its question marks."""
        return self._connection.execute(query, values).fetchall()

    def close(self) -> None:
        """Closes the database; nothing more is written."""
        self._connection.close()


def _is_cut_off(path: Path) -> bool:
    """Returns whether the last page is incomplete: SQLite would read zeros in place of its newest rows.

    A write-ahead log that is not yet folded into the file makes up for a torn end.
    """
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size:
        return False
    with path.open("rb") as file:
        head = file.read(18)
    page = int.from_bytes(head[16:], "big")  # 1: 65536 (SQLite's file format, 1.3.2)
    return head.startswith(b"SQLite format 3") and path.stat().st_size % max(page, 512) != 0


_DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB")


def _refused(path: Path, error: sqlite3.Error) -> UserError:
    if str(getattr(error, "sqlite_errorname", "")).startswith(_DAMAGED):
        return ConfigError(_lost(path, f"cannot be used: {reason(error)}"))
    return UserError(f"{path} cannot be used: {reason(error)}; {database_advice(error)}")


def _lost(path: Path, what: str) -> str:
    return (
        f"{path} {what}, and it knows what was spent: put the newest copy back, or give another --out "
        "(docs/operating.md, Backup)"
    )
