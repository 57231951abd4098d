r"""The spend file: a key's spending, kept beside the key, so that it survives a lost or restored folder.

    KEY FILE.spent: a line per offer  -->  state.db: the ledger  -->  the offer leaves

Each step is written before the next one begins. So the file may contain an offer that never left, which
counts, but no offer ever left without a line in the file. A line names its key and task, says what the charge
was sized for (`terms`; lines of earlier versions do not), and carries its own digest. The file only grows,
except that a last line that a kill cut off is removed: its offer never left. Of two lines for an offer the
later one counts.

One node at a time uses a key (`node.storage.key_file`). But a node of an earlier version locks no key, so the
file may still grow: a node reads new lines before it makes or charges its next offer.

Within a run of steps a node does not wait for the disk here: the ledger's transaction is on disk before the
offer leaves, and the next start writes the lines that a power failure took (`State`). The first line of the
next run puts all lines on disk.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path

from mechanisms.accounting.ledger import (
    Event,
    Terms,
    event_from_text,
    terms_from_text,
    terms_to_text,
    to_text,
)
from node.storage.regular_files import check_regular
from node.storage.whole_files import sync
from node.system.disk import DISK, Disk
from node.system.errors import ConfigError, UserError, reason
from protocol.wire.messages import Key, Sid

SUFFIX = ".spent"
_CHECK_DIGITS = 16


def spend_path(key_file: Path) -> Path:
    """Returns the path of a key's spend file: beside the key file itself, not beside a link to it."""
    real = key_file.resolve()
    return real.with_name(real.name + SUFFIX)


@dataclass(frozen=True)
class Charge:
    """The charge of one offer; `terms`: what its events were sized for, None if that was never written."""

    sid: Sid
    round: int
    at_ms: int
    events: tuple[Event, ...]
    terms: Terms | None = None

    @property
    def sized(self) -> tuple[Event, ...]:
        """The events with their terms."""
        return tuple(replace(event, terms=self.terms) for event in self.events)


class SpendFile:
    """The charges of one key for one task. Other nodes may write charges for their tasks to the same file."""

    def __init__(self, key_file: Path, key: Key, task: str, disk: Disk = DISK) -> None:
        self.path = spend_path(key_file)
        self._disk = disk
        self._key = key.hex()
        self._task = task
        self._read_to = 0
        self._lines = 0
        """The bytes of the file that this process has read or written, in whole lines."""
        self._is_named = False
        """Whether this process has synced the folder, so that the file's name is on disk, too."""

    def charges(self) -> dict[Sid, Charge]:
        """Returns the charges so far, by session. Raises ConfigError for an unreadable or damaged file."""
        self._read_to = self._lines = 0
        return self.grown()

    def grown(self) -> dict[Sid, Charge]:
        """Returns the charges that others have added since this process last read the file, or wrote to it.

        Raises as `charges` does.
        """
        try:
            check_regular(self.path)
            with _locked(self.path, os.O_RDONLY) as file:
                return self._more(file)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(
                f"{self.path}, what this key has spent, cannot be read: {reason(error)}"
            ) from error

    def _more(self, file: FileIO) -> dict[Sid, Charge]:
        """Reads the whole lines from `_read_to` on; a shorter file has replaced the one read: all of it."""
        if os.fstat(file.fileno()).st_size < self._read_to:
            self._read_to = self._lines = 0
        file.seek(self._read_to)
        written = file.readall()
        whole = written[: written.rfind(b"\n") + 1]
        lines = whole.splitlines()
        found = [self._parsed(line, number) for number, line in enumerate(lines, self._lines + 1)]
        self._read_to, self._lines = self._read_to + len(whole), self._lines + len(lines)
        return {charge.sid: charge for charge in found if charge is not None}

    def check_writable(self) -> None:
        """Raises ConfigError if the file cannot be written; called before there is a charge to add."""
        place = self.path if self.path.exists() else self.path.parent
        if not os.access(place, os.W_OK):
            raise ConfigError(
                f"{place} cannot be written: {self.path.name} is kept there, what this key has spent; give "
                "this user the right to it, or name another --key"
            )

    def add(self, charges: Iterable[Charge], durable: bool = True) -> dict[Sid, Charge]:
        """Adds charges, and returns what `grown` would. Raises UserError if the file cannot be written.

        If they are not `durable`, they survive kill -9, but a power failure may take them until the next
        durable ones.
        """
        lines = [self._written(charge) for charge in charges]
        text = b"".join(lines)
        if not text:
            return {}
        try:
            with _locked(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
                _cut_off_torn_end(file)
                others = self._more(file)
                if file.write(text) != len(text):
                    raise UserError(f"{self.path} cannot be written: its disk is full; make room there")
                self._read_to, self._lines = self._read_to + len(text), self._lines + len(lines)
                if durable:
                    self._disk.sync(file.fileno())
            if durable and not self._is_named:
                sync(self.path.parent, self._disk)
                self._is_named = True
        except OSError as error:
            raise UserError(
                f"{self.path} cannot be written: {reason(error)}; nothing was offered; make it writable, "
                "and start again"
            ) from error
        return others

    def _written(self, charge: Charge) -> bytes:
        body = json.dumps(
            {
                "key": self._key,
                "task": self._task,
                "sid": charge.sid.hex(),
                "round": charge.round,
                "at_ms": charge.at_ms,
                "events": [json.loads(to_text(event)) for event in charge.events],
                **({} if charge.terms is None else {"terms": json.loads(terms_to_text(charge.terms))}),
            }
        )
        return f"{_check(body.encode())} {body}\n".encode()

    def _parsed(self, line: bytes, number: int) -> Charge | None:
        """Parses a line; returns None for a charge of another key or another task."""
        check, _, body = line.partition(b" ")
        try:
            if check.decode() != _check(body):
                raise ValueError("it was changed")
            values = json.loads(body)
            if (values["key"], values["task"]) != (self._key, self._task):
                return None
            events = tuple(event_from_text(json.dumps(event)) for event in values["events"])
            terms = terms_from_text(json.dumps(values["terms"])) if "terms" in values else None
            sid, number, at_ms = bytes.fromhex(values["sid"]), int(values["round"]), int(values["at_ms"])
            return Charge(sid, number, at_ms, events, terms)
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                f"{self.path}, what this key has spent, is damaged in line {number}: put back a copy of it "
                "that is whole and no older"
            ) from error


def _check(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:_CHECK_DIGITS]


@contextmanager
def _locked(path: Path, flags: int) -> Iterator[FileIO]:
    """Yields the open file under an exclusive lock."""
    with FileIO(os.open(path, flags | os.O_CLOEXEC, 0o600), "r+b" if flags & os.O_RDWR else "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _cut_off_torn_end(file: FileIO) -> None:
    """Removes an unterminated last line: its write was cut off, and its offer never left."""
    size = file.seek(0, os.SEEK_END)
    if not size or os.pread(file.fileno(), 1, size - 1) == b"\n":
        return
    file.seek(0)
    file.truncate(file.readall().rfind(b"\n") + 1)
