"""A label mechanism that kills the follower's process, by pid, the nth time that it reads labels."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

FEW = 8
"""Calls with fewer labels than this only try the mechanism out."""


class Deadly:
    """Changes no labels. The follower is the process whose standard output is the file `log`."""

    def __init__(self, words, nth: int, log: str) -> None:
        self._left, self._log = nth, Path(log)

    def __call__(self, labels):
        if len(labels) > FEW:
            self._left -= 1
            if self._left == 0:
                os.kill(writer_of(self._log), signal.SIGKILL)
        return labels


def writer_of(log: Path) -> int:
    """Returns the process whose standard output is this file."""
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit() and (process / "fd" / "1").readlink() == log:
                return int(process.name)
    raise AssertionError(f"nobody writes {log}")
