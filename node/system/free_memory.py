"""Reports the memory that is free for one more process, and returns this one's unused memory."""

from __future__ import annotations

import ctypes
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current"))


def free_bytes() -> int | None:
    """Returns the bytes that are available in the system or within a container's limit; None if unknown."""
    known = [size for size in (_available(), _left_by_limit()) if size is not None]
    return min(known, default=None)


def _available() -> int | None:
    try:
        lines = _MEMINFO.read_text().splitlines()
    except OSError:
        return None
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if found is None else int(found) * 1024


def _left_by_limit() -> int | None:
    try:
        most, used = (path.read_text().strip() for path in _LIMITS)
    except OSError:
        return None
    return int(most) - int(used) if most.isdigit() and used.isdigit() else None


def give_back() -> None:
    """Returns free memory to the system if the C library can do so (glibc's malloc_trim).

    After a flood of connections, much free memory lies between used blocks, and malloc would keep it.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
