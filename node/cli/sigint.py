"""Ctrl-C before a command has begun: it ends at once, with its status and without a word.

Loading takes seconds, and nothing is written yet. An exception would not do: in the middle of the import of a
native library it ends in a traceback, or in the death of the process.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
PACKAGES = ("node", "scenarios", "benchmarks")
SCRIPT = "murmuration"


def is_script(argv: Sequence[str]) -> bool:
    """Whether `argv`, which is sys.argv, is that of the installed command."""
    return bool(argv) and argv[0].rpartition("/")[2] == SCRIPT


def is_command(argv: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether Python is loading a command of this project.

    `argv` is sys.argv, which begins with "-m" until the command's module is found; `whole` is
    sys.orig_argv, where the module's name has that place. The installed command has its path in both; a
    child process has in its sys.argv what its parent was started with.
    """
    begins = whole[-len(argv) :][:1] if argv else []
    if argv[:1] == ["-m"]:
        return bool(begins) and begins[0].removeprefix("-m").partition(".")[0] in PACKAGES
    return is_script(argv) and begins == argv[:1]


def loading() -> None:
    """Where a command is being loaded, Ctrl-C ends the process from here on. Else nothing changes."""
    if is_command(sys.argv, sys.orig_argv) and _on_interrupt() is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def begun() -> None:
    """A command begins to write: from here on Ctrl-C is a KeyboardInterrupt, as in any program."""
    if _on_interrupt() is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def leave(status: int) -> NoReturn:
    """End a command. Ctrl-C during Python's own last steps ends it a little earlier."""
    if _on_interrupt() is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    sys.exit(status)


def _on_interrupt() -> object:
    return signal.getsignal(signal.SIGINT)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    os._exit(INTERRUPTED)
