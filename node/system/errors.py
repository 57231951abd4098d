"""Errors that a user sees when the program cannot go on: one line and an exit status.

A refusal of the operating system (a full disk, a port in use) is not a fault of this program: `refusal`
describes it in one line with what to do.
"""

from __future__ import annotations

import errno
import os
import sqlite3

_SHOWN_CHARACTERS = 60

_ADVICE = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there, or raise the quota",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EROFS: "it can only be read: name another folder",
    errno.EACCES: "give this user the right to it",
    errno.EPERM: "give this user the right to it",
    errno.EIO: "the disk fails: look at the system's log",
    errno.EISDIR: "a folder has the name of a file: move it away",
    errno.EEXIST: "something else has its name: move it away",
    errno.ENOTDIR: "a file has the name of a folder: move it away",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "raise the system's limit on open files",
    errno.ENOMEM: "free some memory",
}
_KEPT = "what is stored stays, and the same command goes on from there"
_PATH_CHARACTERS = 200
_DISK = ("SQLITE_FULL", "SQLITE_IOERR")


def one_line(text: str) -> str:
    """Returns `text` on one line: white space folded, other unprintable characters as `?`."""
    folded = " ".join(text.split())
    return "".join(character if character.isprintable() else "?" for character in folded)


def shown(value: object) -> str:
    """Returns `value` as a message quotes it: one line, bounded, booleans as TOML writes them."""
    text = str(value).lower() if isinstance(value, bool) else one_line(repr(value))
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def reason(error: Exception) -> str:
    """Returns why the system or a library refused, without the path or class name."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    line = one_line(str(text))
    return line if len(line) <= 200 else line[:197] + "..."


class UserError(Exception):
    """An error that the user can correct; `str(error)` is one line, `status` the exit status.

    The line says what is wrong, the value, what is allowed and what to do. Status 1 is a failure at run time,
    2 means bad arguments or configuration.
    """

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(one_line(message))
        self.status = status


class ConfigError(UserError):
    """Bad arguments, task file or data: status 2, raised before anything is written."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=2)


class OtherSwarm(ConfigError):
    """The peers that answer learn another task, or with other `parameters`: those of the peer at `who`."""

    def __init__(self, message: str, who: str = "", parameters: str = "") -> None:
        super().__init__(message)
        self.who, self.parameters = who, parameters


def refusal(error: Exception) -> str | None:
    """Returns the line for an error of the system; None for any other error."""
    if isinstance(error, MemoryError):
        return f"memory ran out ({one_line(str(error)) or 'it is not said where'}); free some; {_KEPT}"
    if not isinstance(error, OSError) or error.errno not in _ADVICE:
        return None
    name = error.filename if error.filename2 is None else error.filename2  # for a renaming, the new name
    where = f"{_ending(os.fsdecode(name))}: " if isinstance(name, str | bytes) else ""
    return f"{where}{reason(error)}; {_ADVICE[error.errno]}; {_KEPT}"


def _ending(path: str) -> str:
    """Returns the path on one line; for a very long one its end, which contains the file's name."""
    line = one_line(path)
    return line if len(line) <= _PATH_CHARACTERS else f"...{line[3 - _PATH_CHARACTERS :]}"


def database_advice(error: sqlite3.Error) -> str:
    """Returns what to do about a database that cannot be used."""
    if str(getattr(error, "sqlite_errorname", "")).startswith(_DISK):
        return "see that its disk has room, and start again"
    return "start with another --out"


def counted(count: int, what: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count} {what}" + ("" if count == 1 else "s")
