"""What figures depend on: the machine, its load, the versions of packages."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

PACKAGES = ("numpy", "torch", "aiohttp", "cryptography")
_GIB = 1 << 30


def machine() -> str:
    """Return a line that names the processor, cores, memory and load."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    load = os.getloadavg()[0]
    return f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, load {load:.1f} at the start"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that the figures depend on, by name."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in PACKAGES}}
