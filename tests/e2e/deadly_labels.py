"""A label mechanism that kills the follower's process, by its id, the nth time that labels are read."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

FEW = 8
"""Labels that a mechanism is tried on are fewer."""


class Deadly:
    """Changes no label. The follower is whose standard output goes to the file `log`."""

    def __init__(self, words, nth: int, log: str) -> None:
        self._left, self._log = nth, Path(log)

    def __call__(self, labels):
        if len(labels) > FEW:
            self._left -= 1
            if self._left == 0:
                os.kill(writer_of(self._log), signal.SIGKILL)
        return labels


def writer_of(log: Path) -> int:
    """The process whose standard output is that file."""
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit() and (process / "fd" / "1").readlink() == log:
                return int(process.name)
    raise AssertionError(f"nobody writes {log}")
