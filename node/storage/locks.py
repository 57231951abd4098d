"""Locks on files, which one process at a time holds. The system releases them at any end of the process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

from node.system.errors import UserError, reason

if TYPE_CHECKING:
    from _typeshed import HasFileno

_LOCKS = Path("/proc/locks")


class InUse(UserError):
    """Another process holds the lock."""


def lock(file: HasFileno, what: str, kind: str, option: str) -> None:
    """Locks an open file, or raises InUse, whose line says which process holds it, where that is known.

    For that line, `what` names the locked thing, `kind` the program, `option` the option that gives another.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InUse(
            f"{what} is in use by another {kind}{_holder(file)}: end that one, or give another {option}"
        ) from None
    except OSError as error:
        raise UserError(f"{what} cannot be locked: {reason(error)}; give another {option}") from error


def _holder(file: HasFileno) -> str:
    """Returns the process that holds a file's lock, in words; "" where the system does not tell.

    A line of Linux is `1: FLOCK  ADVISORY  WRITE 4711 08:01:131072 0 EOF`; a process of another container
    has the number 0.
    """
    found = os.fstat(file.fileno())
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    try:
        lines = [line.split() for line in _LOCKS.read_text().splitlines()]
    except OSError:
        return ""
    pids = [line[4] for line in lines if line[1:2] == ["FLOCK"] and line[5:6] == [place] and line[4] != "0"]
    return f" (process {pids[0]})" if pids else ""
