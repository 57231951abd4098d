"""Ensures that a node reads only regular files: reading a pipe or a device might never end."""

from __future__ import annotations

import stat
from pathlib import Path

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def check_regular(path: Path) -> None:
    """Raises OSError if `path` is missing, cannot be examined, or is a pipe, a device or a socket."""
    kind = _KINDS.get(stat.S_IFMT(path.stat().st_mode))
    if kind is not None:
        raise OSError(f"it is {kind}; allowed: a regular file")
