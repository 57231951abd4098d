"""The database of a node's folder: small facts, the ledger of offers, sessions, bans. One SQLite file, WAL.

Every step is one transaction with full synchronisation: what it says is true after kill -9 as well.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from node.errors import ConfigError, UserError, reason
from node.system_errors import database_advice

_VERSION = 1
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
pragma user_version = {_VERSION};
commit;
"""


class Database:
    """The tables, and transactions over them. From any thread, but one at a time: `State` sees to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._connection.execute("pragma journal_mode = wal")
            self._connection.execute("pragma synchronous = full")
            if self._is_new(path):
                self._connection.executescript(_SCHEMA)
        except ConfigError:
            self._connection.close()
            raise
        except sqlite3.Error as error:
            raise self._refused(error) from error

    def _refused(self, error: sqlite3.Error) -> UserError:
        return UserError(f"{self._path} can not be used: {reason(error)}; {database_advice(error)}")

    def _is_new(self, path: Path) -> bool:
        """Whether there are no tables yet; ConfigError for those of another version."""
        (version,) = self._connection.execute("pragma user_version").fetchone()
        (tables,) = self._connection.execute("select count(*) from sqlite_master").fetchone()
        if tables and version != _VERSION:
            raise ConfigError(f"{path} was made by another version of murmuration: name another --out")
        return not tables

    @contextmanager
    def step(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it, or nothing. UserError where the disk does not take it."""
        try:
            self._connection.execute("begin immediate")
            yield self._connection
            self._connection.execute("commit")
        except BaseException as error:
            if self._connection.in_transaction:  # a full disk may have ended it already
                self._connection.execute("rollback")
            if isinstance(error, sqlite3.OperationalError):
                raise self._refused(error) from error
            raise

    def fact(self, name: str) -> str | int | bytes | None:
        """A small fact; None where it was never set."""
        row = self._connection.execute("select value from fact where name = ?", (name,)).fetchone()
        return row[0] if row else None

    def set_facts(self, **facts: str | int | bytes | None) -> None:
        """Within a step: set small facts."""
        for name, value in facts.items():
            self._connection.execute("insert or replace into fact values (?, ?)", (name, value))

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """All rows of a query."""
        return self._connection.execute(query).fetchall()

    def close(self) -> None:
        """Nothing more is written."""
        self._connection.close()
